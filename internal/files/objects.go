//go:build !lite

package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// process is what all requests to stores belong to, and Cancel ends.
var process, cancel = context.WithCancel(context.Background())

// Cancel ends all requests to object stores that are waited for, and refuses further ones: their error is
// context.Canceled.
func Cancel() { cancel() }

// within is the rest of p's key under the directory dir, which p may be itself.
func (p place) within(dir place) (rest string, ok bool) {
	switch {
	case p.bucket != dir.bucket:
		return "", false
	case dir.key == "" || p.key == dir.key:
		return strings.TrimPrefix(p.key, dir.key), true
	}
	return strings.CutPrefix(p.key, dir.key+"/")
}

// failed is an error of the store in one sentence.
func (p place) failed(err error) error {
	said := minio.ToErrorResponse(err)
	switch {
	case said.StatusCode == http.StatusNotFound && said.Code != "NoSuchBucket":
		return &fs.PathError{Op: "open", Path: p.String(), Err: fs.ErrNotExist}
	case said.StatusCode == http.StatusPreconditionFailed:
		return p.changed()
	}
	return fmt.Errorf("%s: %w", p, err)
}

func (p place) changed() error { return fmt.Errorf("%s: the object changed while it was read", p) }

// retries is how often a request is made before an error of the network or the store is final.
const retries = 4

// store is the client of this process: where the store is and who asks it is read from the
// environment once.
var store = sync.OnceValues(func() (*minio.Core, error) {
	endpoint := &url.URL{Scheme: "https", Host: "s3.amazonaws.com"}
	region := cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	if text := cmp.Or(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL")); text != "" {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" {
			return nil, fmt.Errorf("AWS_ENDPOINT_URL: want http://HOST:PORT or https://HOST:PORT, got %q", text)
		}
		endpoint, region = u, cmp.Or(region, "us-east-1")
	}
	// Without any, requests are not signed. A machine's role is asked for only where the environment names one:
	// elsewhere that waits for an address which does not answer.
	sources := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	if cmp.Or(os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"), os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
		os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")) != "" {
		sources = append(sources, &credentials.IAM{})
	}
	return minio.NewCore(endpoint.Host, &minio.Options{Secure: endpoint.Scheme == "https", Region: region,
		Creds: credentials.NewChainCredentials(sources), MaxRetries: retries})
})

// An info describes an object, or a directory.
type info struct {
	name string
	size int64
	time time.Time
	etag string
	dir  bool
}

func (i *info) Name() string       { return i.name }
func (i *info) Size() int64        { return i.size }
func (i *info) ModTime() time.Time { return i.time }
func (i *info) IsDir() bool        { return i.dir }
func (i *info) Sys() any           { return nil }
func (i *info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// A tree is what lies under a directory, by paths from there: "." is the directory itself. Where
// a file and a directory have one path, at has the directory.
type tree struct {
	root place
	at   map[string]*info
	dirs map[string][]fs.FileInfo // the names in each directory
}

// trees are those that were listed, and what is being listed.
var trees struct {
	sync.Mutex
	all     []*tree
	listing []*listing
}

// A listing is of the tree under root, until done is closed.
type listing struct {
	root place
	done chan struct{}
}

// treeOf is the tree that a directory is in, listed now if it is not known. Two goroutines do not list the same, but
// different trees are listed beside each other.
func treeOf(dir place) (*tree, error) {
	l := &listing{dir, make(chan struct{})}
	trees.Lock()
	defer trees.Unlock()
	for {
		if t := knownTree(dir); t != nil {
			return t, nil
		}
		i := slices.IndexFunc(trees.listing, func(l *listing) bool { _, ok := dir.within(l.root); return ok })
		if i < 0 {
			break
		}
		other := trees.listing[i]
		trees.Unlock()
		<-other.done
		trees.Lock()
	}
	trees.listing = append(trees.listing, l)
	trees.Unlock()
	t, err := listTree(dir)
	trees.Lock()
	trees.listing = slices.DeleteFunc(trees.listing, func(x *listing) bool { return x == l })
	close(l.done)
	if err != nil {
		return nil, dir.failed(err)
	}
	if len(t.dirs) > 0 { // what does not exist may come to be
		trees.all = append(trees.all, t)
	}
	return t, nil
}

// knownTree is the tree that a place is in, nil if it was not listed. The caller holds the lock.
func knownTree(p place) *tree {
	for _, t := range trees.all {
		if _, ok := p.within(t.root); ok {
			return t
		}
	}
	return nil
}

func listTree(dir place) (*tree, error) {
	c, err := store()
	if err != nil {
		return nil, err
	}
	if dir.bucket == "" {
		return nil, errors.New("want s3://BUCKET/PREFIX")
	}
	prefix := dir.key
	if prefix != "" {
		prefix += "/"
	}
	t := &tree{root: dir, at: map[string]*info{}, dirs: map[string][]fs.FileInfo{}}
	ctx, cancel := context.WithCancel(process)
	defer cancel()
	for o := range c.Client.ListObjects(ctx, dir.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, o.Err
		}
		key := strings.TrimPrefix(o.Key, prefix)
		if !fs.ValidPath(key) { // "a//b", "../b", or "a/", which stands for a directory without files
			continue
		}
		t.add(path.Dir(key), &info{name: path.Base(key), size: o.Size, time: o.LastModified,
			etag: o.ETag})
	}
	return t, nil
}

// add adds a name to a directory, and the directory to that above it.
func (t *tree) add(dir string, i *info) {
	if name := path.Join(dir, i.name); t.at[name] == nil || i.dir {
		t.at[name] = i
	}
	names, known := t.dirs[dir]
	t.dirs[dir] = append(names, i)
	switch {
	case known:
	case dir == ".":
		t.at[dir] = &info{name: path.Base(t.root.key), dir: true}
	default:
		t.add(path.Dir(dir), &info{name: path.Base(dir), dir: true})
	}
}

// path is that of a place in the tree.
func (t *tree) path(p place) string {
	rest, _ := p.within(t.root)
	return path.Clean(rest)
}

func (t *tree) stat(p place) (fs.FileInfo, error) {
	if i := t.at[t.path(p)]; i != nil {
		return i, nil
	}
	return nil, &fs.PathError{Op: "stat", Path: p.String(), Err: fs.ErrNotExist}
}

func listObjects(dir place) ([]fs.FileInfo, error) {
	t, err := treeOf(dir)
	if err != nil {
		return nil, err
	}
	names, ok := t.dirs[t.path(dir)]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: dir.String(), Err: fs.ErrNotExist}
	}
	return names, nil
}

func statObject(p place) (fs.FileInfo, error) {
	trees.Lock()
	t := knownTree(p)
	trees.Unlock()
	if t != nil {
		return t.stat(p)
	}
	if p.key != "" {
		c, err := store()
		if err != nil {
			return nil, err
		}
		o, err := c.Client.StatObject(process, p.bucket, p.key, minio.StatObjectOptions{})
		if err == nil {
			return &info{name: path.Base(p.key), size: o.Size, time: o.LastModified, etag: o.ETag}, nil
		}
		if err = p.failed(err); !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	t, err := treeOf(p)
	if err != nil {
		return nil, err
	}
	return t.stat(p)
}

// An object is open for reading: as it was when it was opened.
type object struct {
	place
	size int64
	etag string
	at   int64 // of Read
}

func openObject(p place) (File, int64, error) {
	found, err := statObject(p) // one that was listed is not asked for again
	if err != nil {
		return nil, 0, err
	}
	if found.IsDir() {
		return nil, 0, fmt.Errorf("%s: %w", p, ErrNotRegular)
	}
	return &object{place: p, size: found.Size(), etag: found.(*info).etag}, found.Size(), nil
}

func (o *object) Close() error { return nil }

func (o *object) Read(b []byte) (int, error) {
	n, err := o.ReadAt(b[:min(int64(len(b)), max(o.size-o.at, 0))], o.at)
	o.at += int64(n)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

// ReadAt reads what is longer than a block with a request of its own, the rest by blocks,
// which are kept for what is read next.
func (o *object) ReadAt(b []byte, at int64) (int, error) {
	if at < 0 || at > o.size {
		return 0, io.EOF
	}
	want := b[:min(int64(len(b)), o.size-at)]
	if len(want) > blockSize {
		if err := o.get(want, at); err != nil {
			return 0, err
		}
	} else {
		for n := 0; n < len(want); {
			k := (at + int64(n)) / blockSize
			block, err := blocks.get(blockID{o.place, o.etag, k}, func() ([]byte, error) {
				block := make([]byte, min(blockSize, o.size-k*blockSize))
				return block, o.get(block, k*blockSize)
			})
			if err != nil {
				return n, err
			}
			n += copy(want[n:], block[at+int64(n)-k*blockSize:])
		}
	}
	if len(want) < len(b) {
		return len(want), io.EOF
	}
	return len(want), nil
}

// get reads a range. What breaks off is asked for again from where it did.
func (o *object) get(b []byte, at int64) error {
	c, err := store()
	if err != nil {
		return err
	}
	for try := 1; len(b) > 0; try++ {
		var opt minio.GetObjectOptions
		if err := errors.Join(opt.SetRange(at, at+int64(len(b))-1), opt.SetMatchETag(o.etag)); err != nil {
			return o.failed(err)
		}
		body, said, _, err := c.GetObject(process, o.bucket, o.key, opt)
		if err != nil {
			return o.failed(err)
		}
		if said.ETag != o.etag { // of a store that does not know the condition
			body.Close()
			return o.changed()
		}
		n, err := io.ReadFull(body, b)
		body.Close()
		if b, at = b[n:], at+int64(n); err != nil && try == retries {
			return o.failed(err)
		}
	}
	return nil
}

const (
	blockSize = 1 << 20
	maxBlocks = 64
)

// A blockID is a part of an object, of blockSize bytes except for the last one.
type blockID struct {
	of   place
	etag string
	k    int64
}

// blocks are the parts of objects that were used last.
var blocks = blockCache{of: map[blockID]*block{}}

type blockCache struct {
	mu   sync.Mutex
	of   map[blockID]*block
	uses int64
}

type block struct {
	used  int64
	ready chan struct{} // closed when it is read
	bytes []byte
	err   error
}

// get is a block, which is read if it is not there; who asks for one that is being read waits.
func (c *blockCache) get(id blockID, read func() ([]byte, error)) ([]byte, error) {
	c.mu.Lock()
	c.uses++
	b := c.of[id]
	if b != nil {
		b.used = c.uses
		c.mu.Unlock()
		<-b.ready
		return b.bytes, b.err
	}
	b = &block{used: c.uses, ready: make(chan struct{})}
	c.of[id] = b
	if len(c.of) > maxBlocks {
		c.drop()
	}
	c.mu.Unlock()
	defer close(b.ready)
	if b.bytes, b.err = read(); b.err != nil {
		c.mu.Lock()
		delete(c.of, id)
		c.mu.Unlock()
	}
	return b.bytes, b.err
}

// drop forgets what was used longest ago. The caller holds the lock.
func (c *blockCache) drop() {
	var oldest blockID
	least := int64(math.MaxInt64)
	for id, b := range c.of {
		if b.used < least {
			oldest, least = id, b.used
		}
	}
	delete(c.of, oldest)
}
