# The binary with man pages and completions. `features` selects the subsystems, for example `[ "queue" ]`; null: all.
{
  lib,
  rustPlatform,
  installShellFiles,
  features ? null,
}:
rustPlatform.buildRustPackage {
  pname = "orchestrator";
  version = (lib.importTOML ../../Cargo.toml).workspace.package.version;
  src = lib.cleanSource ../..;
  cargoLock.lockFile = ../../Cargo.lock;
  buildType = "dist";
  buildNoDefaultFeatures = features != null;
  buildFeatures = if features == null then [ ] else features;
  # The tests start servers and a browser.
  doCheck = false;
  nativeBuildInputs = [ installShellFiles ];
  postInstall = ''
    $out/bin/orchestrator man $out/share/man/man1
    for shell in bash fish zsh; do
      $out/bin/orchestrator completions $shell >orchestrator.$shell
      installShellCompletion --$shell --name orchestrator.$shell orchestrator.$shell
    done
  '';
  meta = {
    description = "Hands out, ingests and stores work in one supervised process";
    license = [
      lib.licenses.mit
      lib.licenses.asl20
    ];
    mainProgram = "orchestrator";
    platforms = lib.platforms.linux;
  };
}
