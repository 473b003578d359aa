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
// opcode is known, every length lies inside the file, every mark is closed and
// every memo slot set, text is UTF-8, and no global is of a module that could
// do harm (os, subprocess, builtins other than data types, ...): such a file
// is refused by the global's name. Then gopickle's machine runs it with a
// closed list of classes. Nothing is imported, called or executed; an object
// of any other class becomes a [value.Opaque] that shows its name and what it
// was built from, and the rest of the file stays usable. Sizes are compared
// with what the file holds before memory is allocated, and [Limits] bound the
// work.
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
// Records of a zip are compared with their checksums: the pickle and small ones when
// the file is opened, a storage when it is loaded, if it has at most 16 MiB or
// Options.Verify asks for all. Not compared are storages that nothing refers to, and
// files without checksums: those that torch wrote with 0 for each (a warning), legacy
// files, .safetensors and .npy.
//
// # Not in this package
//
// What a capture is (names, arguments, gradients) is package capture's
// business. Quantised, sparse, nested and meta tensors are shown as opaque
// values with a reason. TorchScript code, the tar format of torch before 0.2
// and writing the legacy format are out of scope.
package pthformat
