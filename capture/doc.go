// Package capture finds recorded operator calls and loads one call at a time in one form. It reads every layout
// of ditorch's op_tools, and the recordings of `optool hook`, msprobe, FlashInfer, SGLang and vLLM.
//
// Scan walks directories and yields entries in a deterministic order. It opens no file of op_tools, and only the
// lists of calls of other recorders. It keeps a bounded part of the tree in memory, so that it can list trees of any
// size. Entry.Load opens the files of one capture. The elements of tensors are not read until they are needed.
//
// FORMAT.md describes the layouts and the contents of the files. Package pthformat decodes .pth files, and package
// replay knows the meaning of a call.
package capture
