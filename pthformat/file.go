package pthformat

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/optool/optool/tensor"
	"github.com/optool/optool/tensor/value"
)

// ReadMode says how the bytes of a file are reached.
type ReadMode int

// Read modes. A mapped file that another process makes shorter while it is
// read faults (SIGBUS): that kills the reader unless debug.SetPanicOnFault makes
// a panic of it, as replay.Guard does. Plain reports an error. On network disks
// Plain can be several times faster.
const (
	Mmap  ReadMode = iota // map the file; storages are views of the map
	Plain                 // read each storage when it is first used
)

// Options of Open. The zero value is what most callers want.
type Options struct {
	Read   ReadMode
	Limits Limits
	// Verify compares storages of any size with their checksums when they are loaded,
	// not only those up to 16 MiB.
	Verify bool
}

// Limits bound what a file can make its reader do. Zero fields get the
// defaults, which no file of torch's comes near. Those of numbers of things grow with the
// file: a checkpoint may have any number of tensors, but each takes hundreds of bytes.
type Limits struct {
	// Objects made by one pickle; default 2^20, or one for 4 bytes of a larger file and 2 of the pickle.
	Objects  int
	Depth    int   // nesting of objects, open marks; default 1000
	Expanded int   // objects in the value where every reference counts; default 2^22, or one for 8 bytes
	Records  int   // records of the zip; default 2^20, or one for 64 bytes
	Pickle   int64 // bytes of one pickle; default 256 MiB
	Inflate  int64 // bytes of one compressed storage once inflated; default 1 GiB
}

// fewObjects is how many objects a pickle of any size may make.
const fewObjects = 1 << 20

// withDefaults are the limits for a file of so many bytes.
func (l Limits) withDefaults(size int64) Limits {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&l.Objects, max(fewObjects, int(size/4)))
	def(&l.Depth, 1000)
	def(&l.Expanded, max(1<<22, int(size/8)))
	def(&l.Records, max(1<<20, int(size/64)))
	if l.Pickle <= 0 {
		l.Pickle = 256 << 20
	}
	if l.Inflate <= 0 {
		l.Inflate = 1 << 30
	}
	return l
}

// A File is an open file of values. Its tensors are views of the file: no byte of a
// storage is read before a value is needed.
type File struct {
	Path string
	// Format is "zip" or "legacy" of torch.save, "pt2", "distributed checkpoint",
	// "safetensors", "npy", "npz" or "polygraphy".
	Format   string
	Root     value.Value // the saved object
	Protocol int         // of the pickle of the saved object; 0 without one
	Globals  []string    // names of the classes and functions in that pickle, in order of appearance
	Warnings []string    // what is odd but does not keep the file from being read
	Size     int64       // bytes

	// Expanded is the number of objects in Root where every reference counts
	// as an object: what a walk visits that knows nothing of sharing.
	Expanded int
	// Cyclic says that an object in Root contains itself: only a walk that
	// remembers where it has been (value.Walk) ends.
	Cyclic bool

	src    source
	lim    Limits
	verify bool // see Options
	mode   ReadMode
	parts  []*File // files inside of this one
}

// Open reads the structure of a file that torch.save wrote, or of a .safetensors,
// .npy or .npz file, or Polygraphy's JSON; the content says which it is. Storages are checked against what
// is declared of them, but not read. The caller closes the file.
//
// The error is a *FormatError if the content is at fault.
func Open(path string, opt Options) (*File, error) {
	src, err := openSource(path, opt.Read)
	if err != nil {
		return nil, err
	}
	f := newFile(path, src, opt.Limits)
	f.verify, f.mode = opt.Verify, opt.Read
	if err := f.read(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Close releases the file. Its tensors must not be used afterwards.
func (f *File) Close() error {
	if f.src == nil {
		return fs.ErrClosed
	}
	src := f.src
	f.src = nil
	for _, g := range f.parts {
		g.src = nil
	}
	return src.close()
}

func newFile(path string, src source, lim Limits) *File {
	return &File{Path: path, Size: src.size(), src: src, lim: lim.withDefaults(src.size())}
}

// read is Open of a source.
func read(path string, src source, lim Limits) (*File, error) {
	f := newFile(path, src, lim)
	if err := f.read(); err != nil {
		return nil, err
	}
	return f, nil
}

// read finds out the format and reads the structure.
func (f *File) read() error {
	head, err := f.src.view(0, min(4, f.Size))
	if err == nil {
		switch {
		case f.Size == 0:
			err = malformed("empty file")
		case f.isMetadata():
			err = f.readMetadata()
		case filepath.Ext(f.Path) == ShardExt:
			err = malformed("a shard of a distributed checkpoint: it is read with the %s beside it", MetadataName)
		case f.isSafetensors():
			err = f.readSafetensors()
		case f.Size < 4:
			err = malformed("not a torch file: %d bytes are too short", f.Size)
		case string(head[:2]) == "PK" && (head[2] == 3 && head[3] == 4 || head[2] == 5 && head[3] == 6):
			err = f.readZip()
		case string(head) == npyMagic[:4]:
			err = f.readNpy()
		case f.isPolygraphy():
			err = f.readPolygraphy()
		case head[0] == 0x80 || head[0] == 'L': // PROTO, or LONG in protocols 0 and 1
			err = f.readLegacy()
		default:
			err = malformed("not a torch file: neither a zip nor a pickle")
		}
	}
	if err != nil {
		return f.named(err)
	}
	return nil
}

// named adds the path to an error.
func (f *File) named(err error) error {
	var fe *FormatError
	if !errors.As(err, &fe) {
		fe = &FormatError{Offset: -1, Err: err}
	}
	fe.File = f.Path
	return fe
}

func (f *File) warn(format string, args ...any) {
	f.Warnings = append(f.Warnings, fmt.Sprintf(format, args...))
}

// decode walks and runs the pickle at the start of b and converts its value.
func (f *File) decode(b []byte, u *unpickler) (*program, value.Value, error) {
	p, werr := walk(b, f.lim)
	if werr != nil {
		return nil, nil, werr
	}
	x, err := u.run(p)
	if err != nil {
		return nil, nil, err
	}
	c := converter{lim: f.lim}
	v, n, err := c.convert(x, 0)
	if err != nil {
		return nil, nil, err
	}
	f.Expanded, f.Cyclic = n, c.cyclic
	return p, v, nil
}

// newestVersion is the newest version record that this package knows.
//
// Source: caffe2/serialize/versions.h, kMaxSupportedFileFormatVersion.
const newestVersion = 10

// CheckedStorage is the size up to which a storage is compared with its checksum
// when it is loaded, whatever is done with it: it is in the cache then, and the time
// is small.
const CheckedStorage = 16 << 20

func (f *File) readZip() error {
	f.Format = "zip"
	a, err := openArchive(f.src, f.lim.Records)
	if err != nil {
		return err
	}
	if a.isNpz() {
		return f.readNpz(a)
	}
	if root, ok := a.isExport(); ok {
		return f.readExport(a, root)
	}
	root, err := a.root()
	if err != nil {
		return err
	}
	pkl, _ := a.lookup(root + "/data.pkl")
	if pkl.size > f.lim.Pickle {
		return malformed("%d bytes exceed the limit of %d for a pickle", pkl.size, f.lim.Pickle).in("data.pkl")
	}
	b, err := a.read(pkl, f.lim.Pickle)
	if err != nil {
		return inRecord("data.pkl", err)
	}
	// torch.serialization.set_crc32_options(False) writes zeros for checksums.
	without := pkl.crc == 0 && !pkl.intact(b)
	sound := func(r *record, content []byte) bool { return without && r.crc == 0 || r.intact(content) }
	switch {
	case without:
		f.warn("data.pkl: written without checksums")
	case !pkl.intact(b):
		return malformed("checksum mismatch").in("data.pkl")
	}
	if err := a.checkRecords(root, pkl, sound); err != nil {
		return err
	}
	bigEndian, err := f.readMarks(a, root)
	if err != nil {
		return err
	}
	table := f.table(a, root, "data", bigEndian, sound)
	p, v, err := f.decode(b, &unpickler{persistent: table.resolve})
	if err != nil {
		return inRecord("data.pkl", err)
	}
	if extra := len(b) - p.length; extra > 0 {
		f.warn("data.pkl: %d bytes follow the pickle", extra)
	}
	f.Root, f.Protocol, f.Globals = v, p.protocol, p.globals
	return f.program(a, root, bigEndian, sound)
}

// checkRecords compares the small records beside the pickle with their checksums. Storages are compared when they are
// loaded.
func (a *archive) checkRecords(root string, pkl *record, sound soundness) error {
	left := int64(CheckedStorage)
	for i := range a.records {
		r := &a.records[i]
		name := strings.TrimPrefix(r.name, root+"/")
		if r == pkl || strings.HasPrefix(name, "data/") || r.size > left {
			continue
		}
		left -= r.size
		b, err := a.read(r, CheckedStorage)
		if err == nil && !sound(r, b) {
			err = malformed("checksum mismatch")
		}
		if err != nil {
			return inRecord(name, err)
		}
	}
	return nil
}

// soundness compares the content of a record with its checksum.
type soundness func(r *record, content []byte) bool

// inRecord adds the name of a record to an error that speaks of none.
func inRecord(name string, err error) error {
	var fe *FormatError
	if errors.As(err, &fe) && fe.Record == "" {
		fe.Record = name
	}
	return err
}

// A folder is where an archive has the storages of a pickle.
type folder struct {
	f         *File
	a         *archive
	root      string
	name      string
	bigEndian bool
	sound     soundness
}

// table makes the storages of an archive from the records in a folder.
func (f *File) table(a *archive, root, name string, bigEndian bool, sound soundness) storageTable {
	in := &folder{f, a, root, name, bigEndian, sound}
	return storageTable{open: in.storage}
}

func (in *folder) storage(id storageID) (*storage, error) {
	s := &storage{class: id.class.name, dtype: id.class.dtype, count: id.count, swap: in.bigEndian}
	r, ok := in.a.lookup(in.root + "/" + in.name + "/" + id.key)
	if !ok {
		return nil, malformed("missing storage record %s/%s", in.name, id.key)
	}
	if r.size != s.bytes() {
		return nil, malformed("storage %s is %d bytes, %d declared", id.key, r.size, s.bytes())
	}
	// A file may have a million storages: what a closure holds of each is little.
	swapped := 0
	if s.swap {
		swapped = s.dtype.Real().Size()
	}
	s.data = tensor.OpenStorage(r.size, func() ([]byte, error) { return in.load(r, swapped) })
	s.data.Key, s.data.Location = r.name[len(r.name)-len(id.key):], id.location
	return s, nil
}

// load reads the elements of a storage, whose bytes are swapped by so many.
func (in *folder) load(r *record, swapped int) ([]byte, error) {
	if in.f.src == nil {
		return nil, fs.ErrClosed
	}
	b, err := in.a.read(r, in.f.lim.Inflate)
	if err == nil && (in.f.verify || r.size <= CheckedStorage) && !in.sound(r, b) {
		err = malformed("checksum mismatch")
	}
	if err != nil {
		return nil, in.f.named(inRecord(strings.TrimPrefix(r.name, in.root+"/"), err))
	}
	return littleEndian(b, swapped), nil
}

// littleEndian returns b, or a copy with the bytes of each number of that size swapped.
func littleEndian(b []byte, size int) []byte {
	if size < 2 {
		return b
	}
	out := append([]byte(nil), b...)
	swapBytes(out, size)
	return out
}

// readMarks reads the records that say how the others are written.
func (f *File) readMarks(a *archive, root string) (bigEndian bool, err error) {
	const longest = 64 // bytes; real ones have 1 to 6
	text := func(name string) (string, bool) {
		r, ok := a.lookup(root + "/" + name)
		if !ok {
			return "", false
		}
		if r.size > longest {
			return fmt.Sprintf("(%d bytes)", r.size), true
		}
		b, e := a.read(r, longest)
		if e != nil {
			err = e
		}
		return strings.TrimSpace(string(b)), true
	}
	if v, ok := text("version"); ok && err == nil {
		switch n, e := strconv.Atoi(v); {
		case e != nil:
			f.warn("version: %q is not a number", v)
		case n > newestVersion:
			f.warn("version: %d is newer than %d, the newest known", n, newestVersion)
		}
	}
	if v, ok := text("byteorder"); ok && err == nil {
		switch v {
		case "little":
		case "big":
			bigEndian = true
		default:
			return false, malformed("byte order %q, want little or big", v).in("byteorder")
		}
	}
	return bigEndian, err
}
