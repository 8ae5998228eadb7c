//! Integers inside the memory that a BPF program shares, found by their names in its BTF.

use anyhow::{Context, Result, anyhow, bail};
use libbpf_rs::btf::types::{DataSec, Int, IntEncoding, MemberAttr, Struct, Var};
use libbpf_rs::btf::{Btf, BtfType, HasSize, ReferencesType};
use std::ffi::OsStr;
use std::path::Path;

/// An integer in memory.
#[derive(Clone, Debug)]
pub struct Field {
    pub name: String,
    /// In bytes from the beginning.
    offset: usize,
    /// 1, 2, 4 or 8 bytes.
    size: usize,
    signed: bool,
}

impl Field {
    /// Where it lies: offset and size in bytes.
    pub fn place(&self) -> (usize, usize) {
        (self.offset, self.size)
    }

    /// Its value in `memory`, which is as long as the layout says.
    pub fn read(&self, memory: &[u8]) -> i128 {
        let mut bytes = [0; 8];
        bytes[..self.size].copy_from_slice(&memory[self.offset..self.offset + self.size]);
        let value = u64::from_ne_bytes(bytes);
        let unused = 64 - 8 * self.size as u32;
        if self.signed { i128::from((value << unused) as i64 >> unused) } else { i128::from(value) }
    }

    /// Puts `value` into `memory`; refuses one that does not fit.
    pub fn write(&self, memory: &mut [u8], value: i64) -> Result<()> {
        let bits = 8 * self.size as u32 - u32::from(self.signed);
        let (least, greatest) =
            if self.signed { (-(1i128 << bits), (1i128 << bits) - 1) } else { (0, (1i128 << bits) - 1) };
        if !(least..=greatest).contains(&i128::from(value)) {
            bail!("{} cannot be {value}; it takes {least} to {greatest}", self.name);
        }
        memory[self.offset..self.offset + self.size].copy_from_slice(&value.to_ne_bytes()[..self.size]);
        Ok(())
    }
}

/// The type information of a compiled program.
pub fn btf(object: &Path) -> Result<Btf<'static>> {
    Btf::from_path(object).with_context(|| format!("{} is no BPF program with type information", object.display()))
}

/// The integers among the members of a structure, and of structures in it.
pub fn structure(btf: &Btf<'_>, name: &str) -> Result<Vec<Field>> {
    let found = btf.type_by_name::<Struct<'_>>(name).ok_or_else(|| anyhow!("there is no structure {name}"))?;
    let mut fields = Vec::new();
    members(btf, &found, 0, &mut fields);
    Ok(fields)
}

/// Whether there is a structure of that name.
pub fn exists(btf: &Btf<'_>, structure: &str) -> bool {
    btf.type_by_name::<Struct<'_>>(structure).is_some()
}

/// Where a member of a structure begins, in bytes; None if there is no such member.
pub fn member(btf: &Btf<'_>, structure: &str, name: &str) -> Option<usize> {
    let found = btf.type_by_name::<Struct<'_>>(structure)?;
    let member = found.iter().find(|member| member.name == Some(OsStr::new(name)))?;
    match member.attr {
        MemberAttr::Normal { offset } => Some(offset as usize / 8),
        MemberAttr::BitField { .. } => None,
    }
}

/// The integers among the variables of a section, such as `.rodata`; of a structure, its members.
pub fn section(btf: &Btf<'_>, name: &str) -> Vec<Field> {
    let mut fields = Vec::new();
    for place in btf.type_by_name::<DataSec<'_>>(name).iter().flat_map(|section| section.iter()) {
        let Some(variable) = btf.type_by_id::<Var<'_>>(place.ty) else { continue };
        let kind = variable.referenced_type().skip_mods_and_typedefs();
        if let Ok(inner) = Struct::try_from(kind) {
            members(btf, &inner, place.offset as usize, &mut fields);
        } else {
            fields.extend(integer(kind, variable.name(), place.offset as usize));
        }
    }
    fields
}

fn members(btf: &Btf<'_>, structure: &Struct<'_>, base: usize, fields: &mut Vec<Field>) {
    for member in structure.iter() {
        let (MemberAttr::Normal { offset }, Some(kind)) = (member.attr, btf.type_by_id::<BtfType<'_>>(member.ty))
        else {
            continue;
        };
        let offset = base + offset as usize / 8;
        if let Ok(inner) = Struct::try_from(kind.skip_mods_and_typedefs()) {
            members(btf, &inner, offset, fields);
        } else {
            fields.extend(integer(kind, member.name, offset));
        }
    }
}

fn integer(kind: BtfType<'_>, name: Option<&OsStr>, offset: usize) -> Option<Field> {
    let int = Int::try_from(kind.skip_mods_and_typedefs()).ok()?;
    let name = name?.to_string_lossy().into_owned();
    Some(Field { name, offset, size: int.size(), signed: matches!(int.encoding, IntEncoding::Signed) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(size: usize, signed: bool) -> Field {
        Field { name: "x".into(), offset: 2, size, signed }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else_changes() {
        for (size, signed, value) in [(1, false, 255), (2, true, -32768), (4, true, -1), (8, true, i64::MIN)] {
            let mut memory = [7; 12];
            field(size, signed).write(&mut memory, value).unwrap();
            assert_eq!(field(size, signed).read(&memory), i128::from(value));
            assert_eq!(&memory[..2], [7; 2]);
            assert_eq!(memory[2 + size..], vec![7; 10 - size]);
        }
    }

    #[test]
    fn a_value_that_does_not_fit_is_refused() {
        for (size, signed, value) in [(1, false, 256), (1, false, -1), (4, true, 1 << 31), (8, false, -1)] {
            assert!(field(size, signed).write(&mut [0; 12], value).is_err());
        }
    }
}
