package cache

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/filelock"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// These are names and sizes in a cache. Its directory has two entries:
//
//		haul-cache                      identifies a cache; locked by the process that writes
//	   objects/ID/info                 describes one version of a file: source, name, version, size
//	   objects/ID/INDEX-CHECKSUM       one block of that version, which contains only bytes of the file
//
// ID is a hash of the content of info. If a version is replaced while readers have it open, its
// directory is renamed to a name that begins with doomedPrefix, and is removed when the last reader
// closes it. When a process locks the cache, it removes everything else from objects.
const (
	blockSize = 1 << 20

	markerName   = "haul-cache"
	markerText   = "haul cache 1\n"
	objectsName  = "objects"
	infoName     = "info"
	doomedPrefix = "replaced-"
	idLen        = 16 // number of bytes of the hash that an ID encodes

	// pageSize is the unit, in bytes, in which the disk space of files is counted.
	pageSize = 4096

	// objectCost is the disk space, in bytes, that is counted for an object: its directory, its
	// info file, and its entry in the directory `objects`. baseCost is the space counted for the
	// directories above.
	objectCost = 3 * pageSize
	baseCost   = 4 * pageSize

	maxInfo    = pageSize // largest size of an info file, in bytes; objectCost includes it
	checkPiece = 64 << 10 // bytes that are read at once when a checksum is computed
)

var (
	errNoCache  = errors.New("this directory is no cache, and it is not empty: name another one")
	errBadBlock = errors.New("its content is not what was stored")
)

var checkBuffers = sync.Pool{New: func() any { return new([checkPiece]byte) }}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// blockCost returns the disk space, in bytes, that is counted for a block of n bytes: its pages,
// and its entry in the directory.
func blockCost(n int) int64 { return (int64(n)/pageSize + 2) * pageSize }

// blocksOf returns the number of blocks of a file of size bytes.
func blocksOf(size int64) int64 {
	n := size / blockSize
	if size%blockSize > 0 {
		n++
	}
	return n
}

// blockLen returns the length, in bytes, of a block. Only the last block of a file may be shorter
// than blockSize.
func blockLen(size, index int64) int { return int(min(size-index*blockSize, blockSize)) }

// An identity distinguishes a version of a file from all other versions and files.
type identity struct {
	source, name, version string
	size                  int64
}

// id returns the name of the directory in which the blocks of this version are stored.
func (i identity) id() string {
	h := sha256.New()
	for _, s := range []string{i.source, i.name, i.version} {
		fmt.Fprintf(h, "%d %s\n", len(s), s)
	}
	fmt.Fprintf(h, "%d", i.size)
	return hex.EncodeToString(h.Sum(nil)[:idLen])
}

// isObjectName reports whether the cache may have created an entry with the name dir in its
// directory `objects`.
func isObjectName(dir string) bool {
	sum, err := hex.DecodeString(dir)
	return err == nil && len(sum) == idLen || strings.HasPrefix(dir, doomedPrefix)
}

func (i identity) String() string {
	return fmt.Sprintf("source %q\nname %q\nversion %q\nsize %d\n", i.source, i.name, i.version, i.size)
}

// parseIdentity parses the text of an info file, which the method String returned.
func parseIdentity(text string) (i identity, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) != 5 || lines[4] != "" {
		return i, errBadBlock
	}
	for n, want := range []struct {
		key string
		to  *string
	}{{"source ", &i.source}, {"name ", &i.name}, {"version ", &i.version}} {
		quoted, ok := strings.CutPrefix(lines[n], want.key)
		if *want.to, err = strconv.Unquote(quoted); !ok || err != nil {
			return i, errBadBlock
		}
	}
	size, ok := strings.CutPrefix(lines[3], "size ")
	if i.size, err = strconv.ParseInt(size, 10, 64); !ok || err != nil || i.size < 0 {
		return i, errBadBlock
	}
	return i, nil
}

// blockName returns the name of the file that stores a block.
func blockName(index int64, sum uint32) string { return fmt.Sprintf("%d-%08x", index, sum) }

// parseBlockName parses a name that blockName returned.
func parseBlockName(name string) (index int64, sum uint32, ok bool) {
	first, second, _ := strings.Cut(name, "-")
	index, err := strconv.ParseInt(first, 10, 64)
	if err != nil || index < 0 {
		return 0, 0, false
	}
	n, err := strconv.ParseUint(second, 16, 32)
	return index, uint32(n), err == nil && name == blockName(index, uint32(n))
}

// A disk is the directory of a cache. It knows the layout of the directory, but not which blocks
// are in use.
type disk struct {
	root    *os.Root
	marker  *os.File
	objects *os.Root
	local   *localdir.Dir // store of the directory `objects`
	files   store.Tree    // equal to local, except in tests that inject faults
}

// openDisk opens the directory of a cache. If there is no cache yet and `create` is set, it creates
// one.
func openDisk(dir string, create bool) (*disk, error) {
	d := &disk{}
	err := d.open(dir, create)
	if err != nil {
		d.close()
		return nil, fmt.Errorf("cache in %s: %w", dir, err)
	}
	return d, nil
}

func (d *disk) open(dir string, create bool) (err error) {
	if create {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	if d.root, err = os.OpenRoot(dir); err != nil {
		return err
	}
	d.marker, err = d.root.OpenFile(markerName, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if err = d.begin(create); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.NewSectionReader(d.marker, 0, maxInfo))
	if err != nil {
		return err
	}
	// The marker is empty if a process was killed just after it created the marker.
	if len(text) == 0 && create {
		_, err = d.marker.WriteAt([]byte(markerText), 0)
	} else if string(text) != markerText {
		err = fmt.Errorf("%s is not of this version of haul: remove the directory, or name another one", markerName)
	}
	if err != nil {
		return err
	}
	if err := d.root.Mkdir(objectsName, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if d.objects, err = d.root.OpenRoot(objectsName); err != nil {
		return err
	}
	files := localdir.New(d.objects)
	files.NoSync = true
	files.Path = filepath.Join(dir, objectsName)
	d.local, d.files = files, files
	return nil
}

// begin creates the marker of a new cache. The directory must be empty, and `create` must be set.
func (d *disk) begin(create bool) error {
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	if names, err := f.Readdirnames(1); len(names) > 0 || !create {
		return errNoCache
	} else if err != io.EOF {
		return err
	}
	d.marker, err = d.root.OpenFile(markerName, os.O_RDWR|os.O_CREATE, 0o600)
	return err
}

// lock tries to lock the cache for this process, and reports whether that succeeded.
func (d *disk) lock() (bool, error) { return filelock.Try(d.marker) }

// unlock releases the lock of the cache.
func (d *disk) unlock() error { return d.marker.Close() }

func (d *disk) close() {
	if d.objects != nil {
		_ = d.objects.Close()
	}
	if d.marker != nil {
		_ = d.marker.Close()
	}
	if d.root != nil {
		_ = d.root.Close()
	}
}

// write stores a file in one step: if it fails, there is no file of that name.
func (d *disk) write(name string, p []byte) error {
	u, err := d.files.Create(context.Background(), name, store.Create{Size: int64(len(p)), Perm: 0o600, Parents: true, NoSync: true})
	if err != nil {
		return err
	}
	defer u.Close()
	if _, err := u.WriteAt(p, 0); err != nil {
		return err
	}
	return u.Commit()
}

// putInfo writes the info file of an object's directory.
func (d *disk) putInfo(dir string, i identity) error {
	return d.write(path.Join(dir, infoName), []byte(i.String()))
}

// info reads the info file of an object's directory.
func (d *disk) info(dir string) (identity, error) {
	f, err := d.files.Open(context.Background(), path.Join(dir, infoName))
	if err != nil {
		return identity{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.NewSectionReader(f, 0, maxInfo))
	if err != nil {
		return identity{}, err
	}
	i, err := parseIdentity(string(text))
	if err == nil && i.id() != dir {
		err = errBadBlock
	}
	return i, err
}

// openBlock opens the file in which a block is stored.
func (d *disk) openBlock(dir string, index int64, sum uint32) (store.File, error) {
	return d.files.Open(context.Background(), path.Join(dir, blockName(index, sum)))
}

// checkBlock reads a block. It returns errBadBlock if the size or the checksum is wrong.
func checkBlock(f store.File, size int, sum uint32) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if fi.Size() != int64(size) {
		return errBadBlock
	}
	buf := checkBuffers.Get().(*[checkPiece]byte)
	defer checkBuffers.Put(buf)
	got := uint32(0)
	for at := 0; at < size; {
		n, err := f.ReadAt(buf[:min(size-at, checkPiece)], int64(at))
		got = crc32.Update(got, castagnoli, buf[:n])
		if at += n; err != nil && at < size {
			return err
		}
	}
	if got != sum {
		return errBadBlock
	}
	return nil
}

// remove removes a file of an object's directory. It returns no error if the file does not exist.
func (d *disk) remove(dir, name string) error {
	err := d.files.Remove(context.Background(), path.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeObject removes the directory of an object that has no blocks.
func (d *disk) removeObject(dir string) error {
	if err := d.remove(dir, infoName); err != nil {
		return err
	}
	err := d.files.RemoveDir(context.Background(), dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// setAside renames an object's directory, so that a new version can use its name. It returns the
// new name.
func (d *disk) setAside(dir string) (string, error) {
	to := doomedPrefix + rand.Text()
	return to, d.files.Rename(context.Background(), dir, to, false)
}

// A foundBlock is a block that was found on the disk.
type foundBlock struct {
	index int64
	sum   uint32
	at    time.Time // when the block was stored
	size  int64     // size of the block's file in bytes
}

func (b foundBlock) name() string { return blockName(b.index, b.sum) }

// foreign calls f with the names of all entries in the cache's directory, except for the two
// that the cache created.
func (d *disk) foreign(f func(name string)) error {
	dir, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if name != markerName && name != objectsName {
				f(name)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// eachObject calls f for each object's directory, in no particular order, with the result of
// reading its info file. It calls the function foreign for each entry of the directory `objects`
// that is not itself a directory.
func (d *disk) eachObject(ctx context.Context, f func(dir string, i identity, err error) error, foreign func(name string) error) error {
	return d.each(ctx, ".", func(fi fs.FileInfo) error {
		if !fi.IsDir() {
			return foreign(fi.Name())
		}
		i, err := d.info(fi.Name())
		return f(fi.Name(), i, err)
	})
}

// blocks returns the blocks in an object's directory, and the names of all other files except for
// the info file.
func (d *disk) blocks(ctx context.Context, dir string) (found []foundBlock, others []string, err error) {
	err = d.each(ctx, dir, func(fi fs.FileInfo) error {
		index, sum, ok := parseBlockName(fi.Name())
		switch {
		case ok && fi.Mode().IsRegular():
			found = append(found, foundBlock{index: index, sum: sum, at: fi.ModTime(), size: fi.Size()})
		case fi.Name() != infoName:
			others = append(others, fi.Name())
		}
		return nil
	})
	return found, others, err
}

// each calls f for each entry of a directory, and stops at the first error. It reads the entries in
// batches, so a large directory needs little memory.
func (d *disk) each(ctx context.Context, dir string, f func(fs.FileInfo) error) error {
	entries, err := d.files.OpenDir(ctx, dir)
	if err != nil {
		return err
	}
	defer entries.Close()
	var batch [256]fs.FileInfo
	for {
		n, err := entries.Next(batch[:])
		for _, fi := range batch[:n] {
			if err := f(fi); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
