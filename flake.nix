{
  description = "orchestrator: a queue, a provenance storage, an ingester, a producer and a catalog agent in one supervised process";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;
      forEachSystem = lib.genAttrs [
        "x86_64-linux"
        "aarch64-linux"
      ];
      packageFor = system: self.packages.${system}.default;
    in
    {
      packages = forEachSystem (system: {
        default = nixpkgs.legacyPackages.${system}.callPackage ./deploy/nix/package.nix { };
      });

      nixosModules.default =
        { pkgs, ... }:
        {
          imports = [ ./deploy/nix/module.nix ];
          services.orchestrator.package = lib.mkDefault (packageFor pkgs.stdenv.hostPlatform.system);
        };

      checks = forEachSystem (system: {
        package = packageFor system;
        unit =
          (lib.nixosSystem {
            inherit system;
            modules = [
              self.nixosModules.default
              { services.orchestrator.enable = true; }
            ];
          }).config.systemd.units."orchestrator.service".unit;
      });
    };
}
