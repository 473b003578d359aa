// Package pthformat reads and writes the files of torch.save: .pth, .pt. It also
// reads their neighbours .safetensors, .npy and .npz, and the JSON of Polygraphy.
//
// It reads the zip format of torch 1.6 and later and the legacy format before
// it, pickle protocols 0 to 5, and every dtype torch can save. FORMAT.md
// describes both formats with their sources.
//
// # Untrusted files
//
// A pickle is a program. Open walks it once before anything runs: every
// opcode is known, every length lies inside the file, every mark is closed,
// every memo slot is set, and text is UTF-8. A file with a global of a module
// that could do harm (os, subprocess, builtins other than data types, ...) is
// refused by the global's name. Then gopickle's machine runs the pickle with a
// closed list of classes. Nothing is imported, called or executed. An object of
// any other class becomes a [value.Opaque] that shows its name and its state, and
// the rest of the file stays usable. Sizes are compared with the size of the file
// before memory is allocated, and [Limits] bound the work.
//
// # Storages
//
// Open reads the pickle and the zip's central directory; no byte of a storage
// is touched until a value of a tensor is needed. Storages are views of a
// memory map ([Mmap]) or are read when first used ([Plain]). Tensors that
// share a storage in the file share it in memory, and [Write] keeps that.
//
// # Checksums
//
// Records of a zip are compared with their checksums. The pickle and small records
// are checked when the file is opened. A storage is checked when it is loaded, if it
// has at most 16 MiB or Options.Verify asks for all. Storages that nothing refers to
// are not checked. Some files have no checksums: files in which torch wrote 0 for each
// (a warning), legacy files, .safetensors and .npy.
//
// # Not in this package
//
// Package capture knows what a capture is (names, arguments, gradients). Quantised,
// sparse, nested and meta tensors are shown as opaque values with a reason. TorchScript
// code, the tar format of torch before 0.2 and writing the legacy format are out of scope.
package pthformat
