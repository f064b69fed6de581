package mux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/haul-project/haul/sftp/internal/wire"
)

const (
	// maxListAhead is how many READDIRs may be in flight for one directory. A listing begins with
	// two in flight: for a short directory, the second one receives the end of the listing.
	maxListAhead = 64

	// maxListEmpty is how many answers in a row may have no entries except "." and "..".
	maxListEmpty = 16

	// maxListUnsafe is the number of answers with unsafe names after which a listing fails.
	maxListUnsafe = 64

	// maxListHeld is how many entries may wait to be taken by Next before no more READDIRs are
	// sent. They take some 4 MiB. Entries of answers in flight are not counted.
	maxListHeld = 16 << 10
)

// A ListParser parses the entries of one answer. It returns the entries with safe names as list,
// the number of names besides "." and ".." as count, and an error about the first unsafe name.
type ListParser func(names wire.Names) (list []fs.FileInfo, count int, unsafe error)

// A Listing is an open directory. It keeps several requests in flight. Next and Close must not be
// called concurrently.
type Listing struct {
	mux   *Mux
	parse ListParser
	at    Handle
	ctx   context.Context // the listing stops when ctx ends

	// Guarded by mu:
	entries  queue[fs.FileInfo]
	ahead    int   // how many requests may be in flight
	asked    []int // the numbers of the requests in flight, in the order of sending
	last     int   // the number of the most recent request
	endedAt  int   // number of the first request whose answer marked the end of the directory
	empty    int   // number of answers in a row with no entries except "." and ".."
	end      error // why no more requests are sent; io.EOF at the end of the directory
	unsafe   error // an error about the first unsafe name; nil if all names were safe
	bad      int   // number of answers that had unsafe names
	notified chan struct{}
}

// OpenDir opens a directory for listing. The listing ends when ctx ends.
func (m *Mux) OpenDir(ctx context.Context, path string, parse ListParser) (*Listing, error) {
	var h string
	var err error
	var k *Call
	for tries := 1; ; tries++ {
		k = &Call{Take: TakeHandle(&h), Build: func(b []byte, id uint32) []byte { return wire.AppendOpendir(b, id, path) }}
		k.Orphan = func() { m.calls.closeHandle(Handle{k.at, h}) }
		if err = m.Do(ctx, k); !errors.Is(err, ErrSessionLost) || tries == MaxTries {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return &Listing{mux: m, parse: parse, at: Handle{k.at, h}, ahead: 2, notified: make(chan struct{}, 1), ctx: ctx}, nil
}

// ask sends READDIRs until the allowed number is in flight.
func (d *Listing) ask() {
	for len(d.asked) < d.ahead && d.end == nil && d.entries.length() < maxListHeld {
		d.last++
		number := d.last
		d.asked = append(d.asked, number)
		var list []fs.FileInfo
		var count int
		var unsafe error
		d.mux.calls.submit(&Call{Session: d.at.Session,
			Build: func(b []byte, id uint32) []byte { return wire.AppendReaddir(b, id, d.at.Handle) },
			Take: func(p *wire.Reply) error {
				if p.Type != wire.TypeName {
					return Unexpected(p, wire.TypeName)
				}
				list, count, unsafe = d.parse(p.Names)
				return nil
			},
			then: func(err error) {
				if unsafe != nil && d.unsafe == nil {
					d.unsafe = unsafe
				}
				if unsafe != nil {
					if d.bad++; d.bad == maxListUnsafe && err == nil {
						err = unsafe
					}
				}
				d.answer(number, list, count, err)
			},
		})
	}
}

// over reports whether no more entries can arrive. Once an answer has marked the end of the
// directory, the answers to later requests contain no names.
func (d *Listing) over() bool {
	return d.end != nil && (len(d.asked) == 0 || d.end == io.EOF && d.asked[0] > d.endedAt)
}

// answer handles the answer to the request with the given number.
func (d *Listing) answer(number int, list []fs.FileInfo, count int, err error) {
	if i, ok := slices.BinarySearch(d.asked, number); ok {
		d.asked = slices.Delete(d.asked, i, i+1)
	}
	for _, fi := range list {
		d.entries.push(fi)
	}
	switch {
	case err != nil:
		if d.end == nil || d.end == io.EOF && number < d.endedAt {
			if d.end = Plain(err); errors.Is(err, io.EOF) {
				d.end, d.endedAt = io.EOF, cmp.Or(min(d.endedAt, number), number)
			}
		}
	case count == 0:
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

// Next fills `into` with the next entries and returns their number, as store.Entries requires. If
// some names were unsafe, it returns an error about the first of them after the last entry.
func (d *Listing) Next(into []fs.FileInfo) (int, error) {
	mu := &d.mux.mu
	mu.Lock()
	defer mu.Unlock()
	for {
		d.ask()
		n := 0
		for n < len(into) {
			fi, ok := d.entries.pop()
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
			return 0, d.unsafe
		case d.over():
			return 0, d.end
		}
		mu.Unlock()
		var err error
		select {
		case <-d.notified:
		case <-d.ctx.Done():
			err = context.Cause(d.ctx)
		}
		mu.Lock()
		if err != nil {
			return 0, err
		}
	}
}

// Close closes the directory, without waiting for the server.
func (d *Listing) Close() {
	d.mux.mu.Lock()
	defer d.mux.mu.Unlock()
	if d.end == nil {
		d.end = fs.ErrClosed
	}
	d.mux.calls.closeHandle(d.at)
}
