//! Volumes whose files belong to a group of the server, as Kubernetes makes them for the `fsGroup` of a pod.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::process::Command;

use plantd_tests::{
    CONFIGURATION, Launch, TestServer, UNPRIVILEGED, copy_program, is_root, is_root_or_skipped,
    run_tool, set_mode, temporary_folder,
};

/// Gives a volume to a group, as the kubelet does at a mount: the group may read and write all files and folders, and
/// new files inherit the group.
#[track_caller]
fn mount_for(group: u32, volume: &Path) {
    let script =
        r#"chgrp -R "$1" "$0" && chmod -R g+rw "$0" && find "$0" -type d -exec chmod g+xs {} +"#;
    let mut change = Command::new("sh");
    run_tool(change.args(["-c", script]).arg(volume).arg(group.to_string()));
}

#[test]
fn a_server_starts_again_on_a_volume_whose_files_its_group_may_read_and_write() {
    let folder = temporary_folder();
    let launch = Launch::new().unprivileged(&copy_program(folder.path()));
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("a folder can be made");
    if is_root() {
        chown(&data, Some(UNPRIVILEGED), Some(UNPRIVILEGED)).expect("the owner can be changed");
    }
    let group = fs::metadata(&data).expect("a file has metadata").gid();
    let launch = launch.without_environment("PLANTD_TOKEN").data(&data);
    mount_for(group, &data);
    let mut server = TestServer::start_at(launch.clone(), &data);
    let token = fs::read_to_string(data.join("first-run-token")).expect("the first start made it");
    let create = |server: &TestServer, id| {
        let client = server.client().with_token(token.trim());
        client.create(id, "Rosa", None).assert_plant("Rosa", None);
    };
    create(&server, 1);
    for id in 2..4 {
        assert_eq!(server.terminate().code(), Some(0));
        mount_for(group, &data);
        server = TestServer::start_at(launch.clone(), &data);
        create(&server, id);
    }
    assert_eq!(server.terminate().code(), Some(0));

    // Other users may not, and neither may a group that is not the server's.
    let tokens = data.join("tokens.json");
    for (folder_mode, file_mode) in [(0o2770, 0o664), (0o2770, 0o661), (0o770, 0o660)] {
        set_mode(&data, folder_mode);
        set_mode(&tokens, file_mode);
        launch.assert_refused(CONFIGURATION, &["other users have permissions", "chmod 600"]);
    }
    if is_root_or_skipped("change the group to one of others") {
        mount_for(UNPRIVILEGED - 1, &data);
        set_mode(&data, 0o2777);
        launch.assert_refused(CONFIGURATION, &["other users have permissions"]);
    }
}
