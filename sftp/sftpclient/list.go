package sftpclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// maxEntries and maxEntryBytes bound the result of ReadDir.
const (
	maxEntries    = 1 << 20
	maxEntryBytes = 128 << 20 // total length of the names, in bytes
)

// A dirReader is an open directory of a Client.
type dirReader struct {
	name string

	mu     sync.Mutex   // held during Next and Close
	list   *mux.Listing // guarded by mu
	closed bool         // guarded by mu
}

// OpenDir opens a directory of any size, to be listed in pieces in the server's order. The listing
// fails when ctx ends. If the name is not a directory, the error is fs.ErrNotExist or the server's.
// Unsafe names, for example names with a slash, are left out; the error after the last entry is
// then [ErrProtocol].
func (c *Client) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	d, err := c.openDir(ctx, name, nil)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	return d, nil
}

// openDir opens a directory. The listing leaves out entries for which hide returns true, unless
// hide is nil.
func (c *Client) openDir(ctx context.Context, name string, hide func(string) bool) (*dirReader, error) {
	if err := checkPath(name); err != nil {
		return nil, err
	}
	list, err := c.mux.OpenDir(ctx, name, func(names wire.Names) ([]fs.FileInfo, int, error) { return entriesOf(names, hide) })
	if err != nil {
		return nil, err
	}
	return &dirReader{name: name, list: list}, nil
}

// entriesOf describes the entries in names, and counts the entries besides "." and "..". It leaves
// out names for which hide returns true, and names that would lead out of the directory. The error
// `unsafe` quotes the first name that would lead out.
func entriesOf(names wire.Names, hide func(name string) bool) (list []fs.FileInfo, count int, unsafe error) {
	list = make([]fs.FileInfo, 0, names.Len())
	for e := range names.All() {
		name := string(e.Name)
		if name == "." || name == ".." {
			continue
		}
		if count++; hide != nil && hide(name) {
			continue
		}
		if name == "" || bytes.ContainsAny(e.Name, "/\x00") {
			if unsafe == nil {
				unsafe = fmt.Errorf("%w: name %.100q in a directory", ErrProtocol, name)
			}
			continue
		}
		list = append(list, storewire.InfoOf(name, e.Attrs))
	}
	return list, count, unsafe
}

// Next fills `into` with the next entries: see [store.Entries]. If it left out unsafe names, for
// example names with a slash, it returns an error after the last entry.
func (d *dirReader) Next(into []fs.FileInfo) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, pathError("readdir", d.name, fs.ErrClosed)
	}
	n, err := d.list.Next(into)
	if err != nil && err != io.EOF {
		err = pathError("readdir", d.name, err)
	}
	return n, err
}

// Close closes the directory, without waiting for the server.
func (d *dirReader) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return pathError("close", d.name, fs.ErrClosed)
	}
	d.closed = true
	d.list.Close()
	return nil
}

// ReadDir lists a directory, sorted by name. It does not follow symbolic links. It fails for a
// directory of more than a million entries: use [Client.OpenDir].
func (c *Client) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return c.readDir(ctx, name, nil, maxEntries)
}

// readDir lists a directory, and starts again if its session is lost.
func (c *Client) readDir(ctx context.Context, name string, hide func(string) bool, most int) ([]fs.DirEntry, error) {
	for tries := 1; ; tries++ {
		d, err := c.openDir(ctx, name, hide)
		if err != nil {
			err = pathError("readdir", name, err)
		}
		var list []fs.DirEntry
		if err == nil {
			list, err = d.all(most)
		}
		if !errors.Is(err, mux.ErrSessionLost) || tries == mux.MaxTries {
			return list, err
		}
	}
}

// all returns all entries, sorted by name, and closes the directory. It returns an error if the
// directory has more than `most` entries.
func (d *dirReader) all(most int) ([]fs.DirEntry, error) {
	defer d.Close()
	var list []fs.DirEntry
	into := make([]fs.FileInfo, 256)
	size := 0
	for {
		n, err := d.Next(into)
		for _, fi := range into[:n] {
			list = append(list, fs.FileInfoToDirEntry(fi))
			size += len(fi.Name())
		}
		switch {
		case err == io.EOF:
			slices.SortFunc(list, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
			return list, nil
		case err != nil:
			return nil, err
		case len(list) > most || size > maxEntryBytes:
			return nil, pathError("readdir", d.name, fmt.Errorf("more than %d entries, or %d bytes of names", most, maxEntryBytes))
		}
	}
}
