//! The commands in `docs/guide.md` work as shown.

use std::fs;

use plantd_tests::{Document, Launch, Shell, TestServer, write_tokens_file};

#[test]
fn the_commands_of_the_guide_list_move_and_follow_plants() {
    let parts = Document::read("docs/guide.md");
    let commands: Vec<String> = parts.parts().iter().flat_map(|part| part.blocks("sh")).collect();
    let commands = commands.join("\n");
    assert!(commands.contains("plantd events"), "{commands}");

    let launch = Launch::new().without_environment("PLANTD_TOKEN");
    let server = TestServer::start_prepared(launch, "plantd-data", write_tokens_file);
    let client = server.client().with_token("writer");
    client.create(0, "Rosa canina", Some("Rosaceae")).assert_plant("Rosa canina", Some("Rosaceae"));
    let folder = server.data().parent().expect("a folder");
    fs::write(folder.join("token"), "writer\n").expect("writes");
    fs::write(folder.join("plants.csv"), "id,name,tag\n7,Salix alba,Salicaceae\n").expect("writes");

    Shell::new(folder, server.address()).run(&commands);

    client.read(7).assert_new_plant(7, "Salix alba", Some("Salicaceae"));
    for copy in ["plants.ndjson", "copy.ndjson"] {
        let copy = fs::read_to_string(folder.join(copy)).expect("it was exported");
        assert_eq!(copy.lines().count(), 2, "{copy}");
    }
}
