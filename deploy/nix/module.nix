# NixOS module `services.orchestrator`: the unit beside this folder that fits the settings, with the configuration in the store.
{
  config,
  lib,
  pkgs,
  ...
}:
let
  inherit (lib) mkOption types;
  cfg = config.services.orchestrator;
  toml = pkgs.formats.toml { };

  # What the options of the queue name; `settings` wins.
  queue = lib.filterAttrs (_: value: value != null) {
    inherit (cfg.queue) database socket;
    input_dir = cfg.queue.fetchers;
  };
  settings = lib.recursiveUpdate (
    {
      admin = {
        listen = "";
        unix_socket = "/run/orchestrator/admin.sock";
      };
    }
    // lib.optionalAttrs (queue != { }) { inherit queue; }
  ) cfg.settings;

  units = {
    queue = ../orchestrator.service;
    provenance = ../orchestrator-provenance.service;
    ingester = ../orchestrator-ingester.service;
    producer = ../orchestrator-producer.service;
    catalog = ../orchestrator-catalog.service;
  };
  configured = builtins.filter (name: settings ? ${name}) (builtins.attrNames units);
  # Only the other unit lets the queue use the network, and lets the queue and provenance start programs of hooks.
  isLocal = address: address == "" || builtins.match "(127\\..*|\\[::1]:.*)" address != null;
  suffices =
    name:
    !(settings ? hook)
    && (
      name != "queue"
      || (settings.queue.store or "sqlite" == "sqlite" && isLocal settings.admin.listen && isLocal (settings.admin.probe_listen or ""))
    );
  # Without a subsystem the queue runs.
  first = if configured == [ ] then "queue" else builtins.head configured;
  unit =
    if builtins.length configured < 2 && suffices first then units.${first} else ../orchestrator-pipeline.service;

  # Keys of a part of a unit, as for `serviceConfig`: a list if there are several values.
  keysOf =
    text:
    let
      lines = builtins.filter builtins.isString (builtins.split "\n" text);
      pairs = builtins.filter (pair: pair != null) (map (builtins.match "([A-Za-z]+)=(.*)") lines);
      valueOf = found: if builtins.length found == 1 then builtins.elemAt (builtins.head found) 1 else map (pair: builtins.elemAt pair 1) found;
    in
    builtins.mapAttrs (_: valueOf) (builtins.groupBy builtins.head pairs);
  service = builtins.elemAt (builtins.split "\\[Service]" (builtins.readFile unit)) 2;
  parts = builtins.split "# Least rights" (builtins.head (builtins.split "\\[Install]" service));
  basic = removeAttrs (keysOf (builtins.head parts)) [
    "LoadCredential"
    "WatchdogSec"
  ];
  hardening = lib.optionalAttrs cfg.hardening (keysOf (builtins.elemAt parts 2));

  # Folders below `root` that the unit makes for the paths of the queue.
  foldersIn =
    root:
    let
      paths = builtins.filter builtins.isString (builtins.attrValues (settings.queue or { }));
      below = builtins.filter (lib.hasPrefix root) paths;
    in
    map (path: builtins.head (lib.splitString "/" (lib.removePrefix root path))) below;
  directories = own: root: lib.unique (own ++ foldersIn root);
in
{
  options.services.orchestrator = {
    enable = lib.mkEnableOption "orchestrator, supervised work queues";
    package = mkOption {
      type = types.package;
      description = "Package with the binary; its features decide which subsystems exist.";
    };
    settings = mkOption {
      type = toml.type;
      default = { };
      example = {
        queue.hold_secs = 3600;
      };
      description = "The configuration file, with the sections and keys of `config/orchestrator.toml`.";
    };
    queue = {
      database = mkOption {
        type = types.nullOr types.str;
        default = null;
        description = "Database of the queue; null: what `settings` or the program's default names.";
      };
      fetchers = mkOption {
        type = types.nullOr types.str;
        default = null;
        description = "Directory into which fetchers write; null: as for `database`.";
      };
      socket = mkOption {
        type = types.nullOr types.str;
        default = null;
        description = "Socket at which workers ask for jobs; null: as for `database`.";
      };
      user = mkOption {
        type = types.str;
        default = "orchestrator";
        description = "User of the process. The module makes the user `orchestrator` only.";
      };
      group = mkOption {
        type = types.str;
        default = "orchestrator";
        description = "Group of the process. The module makes the group `orchestrator` only.";
      };
    };
    credentials = mkOption {
      type = types.attrsOf types.path;
      default = { };
      example = {
        pgpass = "/etc/orchestrator/pgpass";
      };
      description = "Files with secrets, which the service sees as `/run/credentials/orchestrator.service/NAME`.";
    };
    hardening = mkOption {
      type = types.bool;
      default = true;
      description = "Takes rights from the service that the configured subsystems do not need.";
    };
    watchdog = mkOption {
      type = types.nullOr types.ints.positive;
      default = 30;
      description = "Seconds without a heartbeat after which systemd restarts the service; null: never.";
    };
  };

  config = lib.mkIf cfg.enable {
    environment.systemPackages = [ cfg.package ];
    users = lib.mkIf (cfg.queue.user == "orchestrator") {
      users.orchestrator = {
        isSystemUser = true;
        inherit (cfg.queue) group;
      };
      groups.orchestrator = { };
    };
    systemd.services.orchestrator = {
      description = "orchestrator: supervised work queues";
      wantedBy = [ "multi-user.target" ];
      wants = [ "network-online.target" ];
      after = [
        "local-fs.target"
        "network-online.target"
      ];
      serviceConfig =
        basic
        // {
          ExecStart = "${cfg.package}/bin/orchestrator run --config ${toml.generate "orchestrator.toml" settings}";
          User = cfg.queue.user;
          Group = cfg.queue.group;
          StateDirectory = directories [ "orchestrator" ] "/var/lib/";
          RuntimeDirectory = directories [ "orchestrator" ] "/run/";
          LogsDirectory = directories [ ] "/var/log/";
          WorkingDirectory = "/var/lib/orchestrator";
          LoadCredential = lib.mapAttrsToList (name: path: "${name}:${path}") cfg.credentials;
        }
        // lib.optionalAttrs (cfg.watchdog != null) { WatchdogSec = cfg.watchdog; }
        // hardening;
    };
  };
}
