//! Opens the files of a load.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::MAX_FILE;

/// Why a file cannot be read.
#[derive(Debug)]
pub(crate) enum OpenError {
    Io(io::Error),
    /// A folder, a device or a pipe.
    NoFile,
    TooLarge,
}

/// The bytes of a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, OpenError> {
    // Opening a pipe would wait for its other end.
    if !path.metadata().map_err(OpenError::Io)?.is_file() {
        return Err(OpenError::NoFile);
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(MAX_FILE).unwrap_or(u64::MAX);
    let file = File::open(path).map_err(OpenError::Io)?;
    file.take(limit + 1).read_to_end(&mut bytes).map_err(OpenError::Io)?;
    if bytes.len() > MAX_FILE {
        return Err(OpenError::TooLarge);
    }
    Ok(bytes)
}

impl OpenError {
    /// What is wrong with the file, for "... cannot be read: WHY".
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Io(error) => error.to_string(),
            Self::NoFile => "it is no file".to_owned(),
            Self::TooLarge => "it has more than 1 MiB".to_owned(),
        }
    }
}
