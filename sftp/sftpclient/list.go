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

const (
	// maxListAhead is how many READDIRs may be in flight for one directory.
	// It begins with two, of which the second brings the end of a short one.
	maxListAhead = 64

	// maxListEmpty is how many answers in a row may have no names but "." and "..".
	maxListEmpty = 16

	// maxListLies is how many answers may have names that no entry may have.
	maxListLies = 64

	// maxListHeld is how many entries may have come and not been taken before
	// no more are asked for: some 4 MiB. Those in flight come on top.
	maxListHeld = 16 << 10

	// maxEntries and maxEntryBytes are what ReadDir may return.
	maxEntries    = 1 << 20
	maxEntryBytes = 128 << 20 // of names
)

// A dirReader lists a directory. It has several requests in flight.
type dirReader struct {
	c    *Client
	name string
	hide func(name string) bool // entries that are left out; may be nil

	mu     sync.Mutex // of the callers of Next and Close
	at     mux.Handle // mu
	closed bool       // mu

	// All of mux.mu:
	entries  mux.Queue[fs.FileInfo]
	ahead    int   // requests that may be in flight
	asked    []int // the numbers of those that are, in the order of asking
	last     int   // the latest number
	endedAt  int   // the number of the one that was answered by the end
	empty    int   // answers without names in a row
	end      error
	unsafe   error // about the first name that no entry may have
	lies     int   // answers with such names
	notified chan struct{}
	ctx      context.Context
}

// OpenDir opens a directory to be listed in pieces, however large it is, in the
// order in which the server has it. ctx ends the listing too. For
// another file the error is fs.ErrNotExist or the server's. Names that no entry may
// have are left out, and are an [ErrProtocol] in place of the end.
func (c *Client) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	d, err := c.openDir(ctx, name, nil)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	return d, nil
}

func (c *Client) openDir(ctx context.Context, name string, hide func(string) bool) (*dirReader, error) {
	if err := checkPath(name); err != nil {
		return nil, err
	}
	var h string
	var err error
	var k *mux.Call
	for tries := 1; ; tries++ {
		k = &mux.Call{Take: mux.TakeHandle(&h), Build: pathCall(wire.AppendOpendir, name)}
		k.Orphan = func() { c.mux.CloseHandle(mux.Handle{Lane: k.At, Handle: h}) }
		if err = c.mux.Do(ctx, k); !errors.Is(err, mux.ErrLaneLost) || tries == mux.MaxTries {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return &dirReader{c: c, name: name, hide: hide, at: mux.Handle{Lane: k.At, Handle: h}, ahead: 2, notified: make(chan struct{}, 1), ctx: ctx}, nil
}

// ask asks for more. The caller holds mux.mu.
func (d *dirReader) ask() {
	for len(d.asked) < d.ahead && d.end == nil && d.entries.Len() < maxListHeld {
		d.last++
		number := d.last
		d.asked = append(d.asked, number)
		var list []fs.FileInfo
		var names int
		var unsafe error
		d.c.mux.Submit(&mux.Call{Lane: d.at.Lane,
			Build: func(b []byte, id uint32) []byte { return wire.AppendReaddir(b, id, d.at.Handle) },
			Take: func(p *wire.Reply) (err error) {
				if p.Type != wire.TypeName {
					return mux.Unexpected(p, wire.TypeName)
				}
				list, names, unsafe = d.infos(p.Names)
				return nil
			},
			Then: func(err error) {
				if unsafe != nil && d.unsafe == nil {
					d.unsafe = unsafe
				}
				if unsafe != nil {
					if d.lies++; d.lies == maxListLies && err == nil {
						err = unsafe
					}
				}
				d.answer(number, list, names, err)
			},
		})
	}
}

// over reports whether nothing more can come: what was asked behind the end has
// no names. The caller holds mux.mu.
func (d *dirReader) over() bool {
	return d.end != nil && (len(d.asked) == 0 || d.end == io.EOF && d.asked[0] > d.endedAt)
}

// answer takes the answer to one request. The caller holds mux.mu.
func (d *dirReader) answer(number int, list []fs.FileInfo, names int, err error) {
	if i, ok := slices.BinarySearch(d.asked, number); ok {
		d.asked = slices.Delete(d.asked, i, i+1)
	}
	for _, fi := range list {
		d.entries.Push(fi)
	}
	switch {
	case err != nil:
		if d.end == nil || d.end == io.EOF && number < d.endedAt {
			if d.end = mux.Plain(err); errors.Is(err, io.EOF) {
				d.end, d.endedAt = io.EOF, cmp.Or(min(d.endedAt, number), number)
			}
		}
	case names == 0:
		if d.empty++; d.empty == maxListEmpty && d.end == nil {
			d.end = fmt.Errorf("%w: %d lists in a row without a name and without an end", ErrProtocol, d.empty)
		}
	default:
		d.empty = 0
		d.ahead = min(2*d.ahead, maxListAhead)
	}
	select {
	case d.notified <- struct{}{}:
	default:
	}
}

// infos describes names, and counts those besides "." and "..". Those that would
// lead out of a directory it leaves out, and returns an error about the first.
func (d *dirReader) infos(names wire.Names) (list []fs.FileInfo, count int, unsafe error) {
	list = make([]fs.FileInfo, 0, names.Len())
	for e := range names.All() {
		name := string(e.Name)
		if name == "." || name == ".." {
			continue
		}
		if count++; d.hide != nil && d.hide(name) {
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

// Next describes the next entries, as store.Entries says. If some had names that
// no entry may have, such as one with a slash, the error behind the last of the
// others says so.
func (d *dirReader) Next(into []fs.FileInfo) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return 0, pathError("readdir", d.name, fs.ErrClosed)
	}
	m := d.c.mux
	m.Lock()
	defer m.Unlock()
	for {
		d.ask()
		n := 0
		for n < len(into) {
			fi, ok := d.entries.Pop()
			if !ok {
				break
			}
			into[n] = fi
			n++
		}
		switch {
		case n > 0 || len(into) == 0:
			return n, nil
		case d.over() && d.end == io.EOF && d.unsafe != nil:
			return 0, pathError("readdir", d.name, d.unsafe)
		case d.over() && d.end == io.EOF:
			return 0, io.EOF
		case d.over():
			return 0, pathError("readdir", d.name, d.end)
		}
		m.Unlock()
		var err error
		select {
		case <-d.notified:
		case <-d.ctx.Done():
			err = pathError("readdir", d.name, context.Cause(d.ctx))
		}
		m.Lock()
		if err != nil {
			return 0, err
		}
	}
}

// Close closes the directory, and does not wait for the server.
func (d *dirReader) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return pathError("close", d.name, fs.ErrClosed)
	}
	d.closed = true
	d.c.mux.Lock()
	defer d.c.mux.Unlock()
	if d.end == nil {
		d.end = fs.ErrClosed
	}
	d.c.mux.CloseHandle(d.at)
	return nil
}

// ReadDir lists a directory, sorted by name. The entries are described as they
// were then; a symbolic link is a link. One of more than a million entries is an
// error: that is for [Client.OpenDir].
func (c *Client) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return c.readDir(ctx, name, nil, maxEntries)
}

// readDir lists a directory, once more if the lane is lost under it.
func (c *Client) readDir(ctx context.Context, name string, hide func(string) bool, most int) ([]fs.DirEntry, error) {
	for tries := 1; ; tries++ {
		list, err := c.listDir(ctx, name, hide, most)
		if !errors.Is(err, mux.ErrLaneLost) || tries == mux.MaxTries {
			return list, err
		}
	}
}

func (c *Client) listDir(ctx context.Context, name string, hide func(string) bool, most int) ([]fs.DirEntry, error) {
	d, err := c.openDir(ctx, name, hide)
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
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
			return nil, pathError("readdir", name, fmt.Errorf("more than %d entries, or %d bytes of names", most, maxEntryBytes))
		}
	}
}
