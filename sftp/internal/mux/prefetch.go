package mux

import (
	"fmt"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

const (
	// prefetchData is how many bytes of a first file are requested. Every server must return that
	// many, and most small files have fewer.
	prefetchData = wire.SureData

	// prefetchLife is how long the answers about a first file are used. A later Open must see the
	// file as it is then.
	prefetchLife = 5 * time.Second

	// prefetchStats is how many Stat calls the answers serve: a copy looks for the file, and then
	// checks that it is a regular file before it opens it.
	prefetchStats = 2
)

// guessedHandles are the handles that known servers return first in a session. OpenSSH counts from
// zero in four bytes, and haul in eight. A server refuses a READ of an invalid handle, which does
// no harm. A READ of the right handle saves a round trip.
var guessedHandles = [...]string{"\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00"}

// The ids of requests that are sent in the handshake.
const (
	limitsID       = 1 // the request for limits
	prefetchStatID = limitsID + iota
	prefetchOpenID
	prefetchReadID // the first of the READs; there is one for each of guessedHandles
)

// prefetchIDs has a bit for each request sent after INIT. prefetchKnows has the bits of the
// requests whose answers describe the file.
const (
	prefetchIDs   = 1<<(prefetchReadID+len(guessedHandles)) - 1<<limitsID
	prefetchKnows = 1<<prefetchReadID - 1<<limitsID
)

// A prefetched is a file that was requested together with the handshake.
type prefetched struct {
	name    string
	session *Session
	until   time.Time
	stats   int // how many Stat calls were answered

	attrs  wire.Attrs
	stat   error // why attrs is unknown
	handle string
	open   error // why handle is unknown
	data   []byte
	begins bool // data is the beginning of the file
	read   [len(guessedHandles)][]byte
}

// ask appends the requests to b.
func (f *prefetched) ask(b []byte) []byte {
	b = wire.AppendStat(b, prefetchStatID, f.name)
	b = wire.AppendOpen(b, prefetchOpenID, f.name, wire.OpenRead, wire.Attrs{})
	for i, h := range guessedHandles {
		b = wire.AppendRead(b, uint32(prefetchReadID+i), h, 0, prefetchData)
	}
	return b
}

// take stores the answer to one of the requests.
func (f *prefetched) take(p *wire.Reply) error {
	switch p.ID {
	case prefetchStatID:
		f.stat = TakeAttrs(&f.attrs)(p)
	case prefetchOpenID:
		f.open = TakeHandle(&f.handle)(p)
	default:
		if len(p.Data) > prefetchData {
			return fmt.Errorf("%w: %d bytes of data where %d were asked for", ErrProtocol, len(p.Data), prefetchData)
		}
		if p.Type == wire.TypeData {
			f.read[p.ID-prefetchReadID] = append([]byte{}, p.Data...)
		} else if p.Type == wire.TypeStatus && p.Status == wire.EOF {
			f.read[p.ID-prefetchReadID] = []byte{}
		}
	}
	return nil
}

// finish selects the data that was read with the handle of the file.
func (f *prefetched) finish(now time.Time) {
	for i, h := range guessedHandles {
		if f.open == nil && f.handle == h && f.read[i] != nil {
			f.data, f.begins = f.read[i], true
		}
	}
	f.until = now.Add(prefetchLife)
}

// isLarge reports whether the file is open, and has more data than arrives with the handshake.
func (f *prefetched) isLarge() bool {
	return f.open == nil && f.stat == nil && f.attrs.Has(wire.AttrSize) && f.attrs.Size >= prefetchData
}

// whole returns the content of the file if all of it arrived with the handshake, or nil.
func (f *prefetched) whole() []byte {
	if f.begins && f.stat == nil && f.attrs.Has(wire.AttrSize) && f.attrs.Size == int64(len(f.data)) && len(f.data) < prefetchData {
		return f.data
	}
	return nil
}
