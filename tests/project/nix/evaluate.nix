# Evaluates the module and the flake without nixpkgs: `lib` has only what they use, and a TOML file is its content as JSON.
{ root, given }:
let
  lib = rec {
    mkOption = option: { isOption = true; } // option;
    mkEnableOption = _: mkOption { default = false; };
    mkIf = condition: value: if condition then value else { };
    mkDefault = value: value;
    types = {
      package = null;
      str = null;
      bool = null;
      path = null;
      ints.positive = null;
      nullOr = _: null;
      attrsOf = _: null;
    };
    filterAttrs = keep: set: builtins.listToAttrs (builtins.filter ({ name, value }: keep name value) (pairs set));
    pairs = set: map (name: { inherit name; value = set.${name}; }) (builtins.attrNames set);
    mapAttrsToList = f: set: map ({ name, value }: f name value) (pairs set);
    recursiveUpdate = a: b: a // builtins.mapAttrs (name: value: if a ? ${name} && builtins.isAttrs value && builtins.isAttrs a.${name} then recursiveUpdate a.${name} value else value) b;
    optionalAttrs = condition: set: if condition then set else { };
    hasPrefix = prefix: text: builtins.substring 0 (builtins.stringLength prefix) text == prefix;
    removePrefix = prefix: text: builtins.substring (builtins.stringLength prefix) (builtins.stringLength text) text;
    splitString = separator: text: builtins.filter builtins.isString (builtins.split separator text);
    unique = builtins.foldl' (known: one: if builtins.elem one known then known else known ++ [ one ]) [ ];
    genAttrs = names: f: builtins.listToAttrs (map (name: { inherit name; value = f name; }) names);
    importTOML = file: builtins.fromTOML (builtins.readFile file);
    cleanSource = path: path;
    licenses = { mit = "mit"; asl20 = "asl20"; };
    platforms.linux = "linux";
    nixosSystem = { modules, ... }: { config.systemd.units."orchestrator.service".unit = builtins.length modules; };
  };
  pkgs = {
    formats.toml = _: { type = null; generate = name: value: "${name} ${builtins.toJSON value}"; };
    stdenv.hostPlatform.system = "x86_64-linux";
    callPackage = file: extra: import file ({ inherit lib; rustPlatform.buildRustPackage = package: package; installShellFiles = "hooks"; } // extra);
  };
  defaults = option: if option ? isOption then option.default or null else builtins.mapAttrs (_: defaults) option;
  module = import (root + "/deploy/nix/module.nix") {
    inherit lib pkgs;
    config.services.orchestrator = lib.recursiveUpdate (defaults module.options.services.orchestrator) given;
  };
  flake = (import (root + "/flake.nix")).outputs {
    self = flake;
    nixpkgs = { inherit lib; legacyPackages = lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] (_: pkgs); };
  };
  package = flake.packages.x86_64-linux.default;
in
{
  options = module.options.services.orchestrator;
  unit = module.config.systemd.services.orchestrator or null;
  users = module.config.users or { };
  package = { inherit (package) version buildType buildNoDefaultFeatures; inherit (package.meta) mainProgram; };
  # Their values have paths, which would be copied.
  checks = builtins.attrNames flake.checks.aarch64-linux;
  module = builtins.attrNames (flake.nixosModules.default { inherit pkgs; });
}
