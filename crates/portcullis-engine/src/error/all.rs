//! All mistakes of a layer at once.

use std::fmt;

use super::LayerError;

/// Everything that is wrong with a layer and its limits.
///
/// The message is that of its only error, or those of all, with semicolons between them.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerErrors(Vec<LayerError>);

impl LayerErrors {
    /// Returns errors as one.
    ///
    /// # Errors
    ///
    /// If there are any.
    pub fn check(errors: Vec<LayerError>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self(errors)) }
    }

    /// Returns the errors, of which there is at least one, in the order in which the limits are stated.
    pub fn iter(&self) -> impl Iterator<Item = &LayerError> {
        self.0.iter()
    }
}

impl From<LayerError> for LayerErrors {
    fn from(error: LayerError) -> Self {
        Self(vec![error])
    }
}

impl IntoIterator for LayerErrors {
    type Item = LayerError;
    type IntoIter = std::vec::IntoIter<LayerError>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Display for LayerErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for LayerErrors {}
