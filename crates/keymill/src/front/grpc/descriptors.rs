//! What the server says about its own contract: which services there are, and the file that describes a name.
//!
//! `reflection` asks. Everything is made once, at the first question, and shared by all answers.

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;
use prost::Message;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, OneofDescriptorProto,
};

/// The contracts that are answered.
static CONTRACTS: [&[u8]; 4] = [
    keymill_proto::FILE_DESCRIPTOR_SET,
    tonic_health::pb::FILE_DESCRIPTOR_SET,
    tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
    tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
];

/// All of it.
pub(super) static DESCRIPTORS: LazyLock<Descriptors> = LazyLock::new(|| {
    let mut descriptors = Descriptors::default();
    for contract in CONTRACTS {
        let set = FileDescriptorSet::decode(contract);
        for file in set.expect("the descriptors were made by the build").file {
            descriptors.add(&file);
        }
    }
    descriptors
});

/// Files of contracts, and the names in them.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    services: Vec<String>,
    /// By their names, each encoded.
    files: HashMap<String, Bytes>,
    /// The file that describes a service, method, message, field or enum.
    symbols: HashMap<String, Bytes>,
}

impl Descriptors {
    /// The names of all services.
    pub(super) fn services(&self) -> &[String] {
        &self.services
    }

    /// The file of a name.
    pub(super) fn file(&self, name: &str) -> Option<Bytes> {
        self.files.get(name).cloned()
    }

    /// The file that describes a symbol.
    pub(super) fn file_of(&self, symbol: &str) -> Option<Bytes> {
        self.symbols.get(symbol).cloned()
    }

    fn add(&mut self, file: &FileDescriptorProto) {
        // Contracts share what they import.
        if self.files.contains_key(file.name()) {
            return;
        }
        let bytes = Bytes::from(file.encode_to_vec());
        self.files.insert(file.name().to_owned(), bytes.clone());
        let package = file.package();
        for message in &file.message_type {
            self.add_message(&bytes, package, message);
        }
        for one in &file.enum_type {
            self.add_enum(&bytes, package, one);
        }
        for service in &file.service {
            let name = self.add_symbol(&bytes, package, service.name());
            for method in &service.method {
                self.add_symbol(&bytes, &name, method.name());
            }
            self.services.push(name);
        }
    }

    fn add_message(&mut self, file: &Bytes, within: &str, message: &DescriptorProto) {
        let name = self.add_symbol(file, within, message.name());
        for nested in &message.nested_type {
            self.add_message(file, &name, nested);
        }
        for one in &message.enum_type {
            self.add_enum(file, &name, one);
        }
        let fields = message.field.iter().map(FieldDescriptorProto::name);
        for part in fields.chain(message.oneof_decl.iter().map(OneofDescriptorProto::name)) {
            self.add_symbol(file, &name, part);
        }
    }

    fn add_enum(&mut self, file: &Bytes, within: &str, one: &EnumDescriptorProto) {
        let name = self.add_symbol(file, within, one.name());
        for value in &one.value {
            self.add_symbol(file, &name, value.name());
        }
    }

    /// Adds a name; with what it is within.
    fn add_symbol(&mut self, file: &Bytes, within: &str, name: &str) -> String {
        let dot = if within.is_empty() { "" } else { "." };
        let name = format!("{within}{dot}{name}");
        self.symbols.insert(name.clone(), file.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_contract_is_found_in_its_file() {
        let symbols = [
            "keymill.v1.Keymill",
            "keymill.v1.Keymill.Take",
            "keymill.v1.TakeRequest",
            "keymill.v1.TakeRequest.space",
            "keymill.v1.Kind",
        ];
        for symbol in symbols {
            let file = DESCRIPTORS.file_of(symbol).expect(symbol);
            let file = FileDescriptorProto::decode(file).unwrap();
            assert_eq!(file.package(), "keymill.v1", "{symbol}");
            let named = DESCRIPTORS.file(file.name()).unwrap();
            assert_eq!(FileDescriptorProto::decode(named).unwrap(), file);
            // Tools ask for what a file imports by name.
            for import in &file.dependency {
                assert!(DESCRIPTORS.file(import).is_some(), "{import}");
            }
        }
        assert_eq!(DESCRIPTORS.file_of("keymill.v1.Nothing"), None);
        let expected = [
            "keymill.v1.Keymill",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
        ];
        assert_eq!(DESCRIPTORS.services(), expected);
    }
}
