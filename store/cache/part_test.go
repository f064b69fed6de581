package cache

import (
	"bytes"
	"context"
	"errors"
	"io"
	"syscall"
	"testing"

	"github.com/haul-project/haul/store"
)

// After a cache is closed, the file of a block is closed when the block's last reader leaves, unless
// another reader has begun to use the block just then.
func TestNextReaderAtClose(t *testing.T) {
	_, f := warm(t, 100)
	o := f.(*file).o
	c := &Cache{state: o.c}
	b := o.blocks[0]
	wantBytes(t, f, version{}, 0, 100) // the block is open
	b.refs.Add(1)
	c.isClosed.Store(true)
	c.mu.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.done(b)
	}()
	eventually(t, "the reader has left", func() bool { return b.refs.Load() == 0 })
	b.refs.Add(1) // with mu held, as ReadAt does
	c.mu.Unlock()
	<-done
	if n, err := b.file.ReadAt(make([]byte, 100), 0); n != 100 {
		t.Errorf("the next reader gets %d bytes, %v", n, err)
	}
	c.done(b)
	if b.file != nil {
		t.Error("the file is open behind its last reader")
	}
	c.isClosed.Store(false)
}

// The blocks of a cached file are files of the system. Each reader has its own offset, even if
// there are two at once. A block that was never fetched has no part. If a block is removed
// meanwhile, it can be read to its end, and occupies its space until then.
func TestOpenPart(t *testing.T) {
	const size = 2*blockSize + 100
	_, f := warm(t, size)
	parts := f.(store.PartOpener)
	want := make([]byte, size)
	version{}.fill(want, 0)
	for _, off := range []int64{0, 1, blockSize - 1, blockSize, 2 * blockSize, size - 1} {
		for _, n := range []int64{1, 2 * blockSize} {
			part, length, end, ok := parts.OpenPart(off, n)
			if !ok {
				t.Fatalf("%d bytes at %d: there is no part", n, off)
			}
			got, err := io.ReadAll(io.LimitReader(part, length))
			if left := min(n, blockSize-off%blockSize, size-off); err != nil || length != left || !bytes.Equal(got, want[off:off+left]) {
				t.Errorf("%d bytes at %d: a part of %d, %v, want %d", n, off, length, err, left)
			}
			end()
		}
	}
	for _, off := range []int64{-1, size, size + 1} {
		if _, _, _, ok := parts.OpenPart(off, 1); ok {
			t.Errorf("there is a part at %d of %d", off, size)
		}
	}
	part, length, end, ok := parts.OpenPart(0, blockSize)
	if !ok {
		t.Fatal("there is no part")
	}
	other, n, endOther, ok := parts.OpenPart(1, 100)
	if !ok {
		t.Fatal("there is no part for another reader")
	}
	if got, err := io.ReadAll(io.LimitReader(other, n)); err != nil || !bytes.Equal(got, want[1:101]) {
		t.Errorf("a part of another reader: %d bytes, %v", len(got), err)
	}
	endOther()
	o := f.(*file).o
	c := &Cache{state: o.c}
	before := c.Stats().Held
	b := o.blocks[0]
	b.refs.Add(1)
	c.drop(b, errBadBlock)
	c.done(b)
	if got, err := io.ReadAll(part); err != nil || !bytes.Equal(got, want[:length]) {
		t.Errorf("a part whose block is gone: %d bytes, %v", len(got), err)
	}
	if held := c.Stats().Held; held != before {
		t.Errorf("%d bytes are held of %d, though the block is in use", held, before)
	}
	if _, _, _, ok := parts.OpenPart(0, 1); ok {
		t.Error("there is a part of a block that is gone")
	}
	end()
	if held := c.Stats().Held; held > before-blockSize {
		t.Errorf("%d bytes are held of %d, though nobody uses the block", held, before)
	}
}

// noFiles is a directory in which no file can be opened.
type noFiles struct {
	store.Tree
	err error
}

func (n noFiles) Open(context.Context, string) (store.File, error) { return nil, n.err }

// Blocks whose files cannot be opened because too many files are open are kept: they have no part,
// and a read fails.
func TestTooManyOpen(t *testing.T) {
	_, f := warm(t, 100)
	o := f.(*file).o
	c, b := &Cache{state: o.c}, o.blocks[0]
	disk := c.disk.files
	wantBytes(t, f, version{}, 0, 100) // the block is open
	parts := f.(store.PartOpener)
	for _, err := range []error{syscall.EMFILE, syscall.ENFILE} {
		_, _, end, ok := parts.OpenPart(0, 100)
		if !ok {
			t.Fatal("there is no part")
		}
		c.disk.files = noFiles{disk, err}
		if _, _, _, ok := parts.OpenPart(0, 100); ok {
			t.Errorf("%v: another reader has a part", err)
		}
		end()
		c.mu.Lock()
		c.closeFile(b)
		c.mu.Unlock()
		if _, _, _, ok := parts.OpenPart(0, 100); ok {
			t.Errorf("%v: there is a part", err)
		}
		if n, got := f.ReadAt(make([]byte, 100), 0); n > 0 || !errors.Is(got, err) {
			t.Errorf("%v: %d bytes, %v", err, n, got)
		}
		c.disk.files = disk
		wantBytes(t, f, version{}, 0, 100)
	}
	if n := c.Stats(); o.blocks[0] != b || n.Fetches != 1 || n.DiskErrors > 0 {
		t.Errorf("a good block was dropped: %+v", n)
	}
}

// A block that was just stored, but cannot be opened because too many files are open, is kept.
// Since its file may have changed meanwhile, it is compared with its checksum.
func TestTooManyOpenAtStore(t *testing.T) {
	l, c := newLab(), openCache(t, Config{})
	disk := c.disk.files
	c.disk.files = noFiles{disk, syscall.EMFILE}
	s, v := c.Store("lab", l), l.put("f", 1000)
	wantFile(t, s, "f", v)
	eventually(t, "it is stored", func() bool { st := c.Stats(); return st.Blocks == 1 && st.Memory == 0 })
	c.disk.files = disk
	wantFile(t, s, "f", v)
	if st := c.Stats(); st.Fetches != 1 || st.DiskErrors > 0 || st.Corrupt > 0 {
		t.Errorf("%+v", st)
	}
}
