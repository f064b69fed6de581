package mux

import (
	"fmt"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

const (
	// prefetchData is how many bytes of a first file are requested. Every server must be able to
	// return that many in one answer, and most small files are shorter.
	prefetchData = wire.SureData

	// prefetchLife is how long the answers about a first file may be used. An Open after that time
	// must see the file as it is then.
	prefetchLife = 5 * time.Second

	// prefetchStats is how many Stat calls the prefetched answer serves. A copy needs two: it looks
	// for the file, and then checks that it is a regular file before it opens it.
	prefetchStats = 2
)

// guessedHandles are the handles that known servers return first in a session. OpenSSH uses a
// four-byte counter that starts at zero, and haul one of eight bytes. A server refuses a READ with
// an invalid handle, which does no harm. A READ with the right handle saves a round trip.
var guessedHandles = [...]string{"\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00"}

// The IDs of the requests that are sent in the handshake.
const (
	limitsID       = 1 // the request for limits
	prefetchStatID = limitsID + iota
	prefetchOpenID
	prefetchReadID // the ID of the first READ; there is a READ for each of guessedHandles
)

// Bit n of these sets stands for the request with ID n. prefetchIDs contains all requests that are
// sent after INIT. prefetchKnows contains those before the READs: their answers describe the limits
// and the first file.
const (
	prefetchIDs   = 1<<(prefetchReadID+len(guessedHandles)) - 1<<limitsID
	prefetchKnows = 1<<prefetchReadID - 1<<limitsID
)

// A prefetched is a first file that was requested together with the handshake.
type prefetched struct {
	name    string
	session *Session
	until   time.Time // the answers must not be used after this time
	stats   int       // number of Stat calls that were answered with `attrs` or `stat`

	attrs  wire.Attrs
	stat   error // the error of the STAT; nil if attrs is valid
	handle string
	open   error // the error of the OPEN; nil if handle is valid
	data   []byte
	begins bool                        // `data` is set, and holds the beginning of the file's content
	read   [len(guessedHandles)][]byte // data that a READ with each of guessedHandles returned
}

// ask appends the requests for the first file to b.
func (f *prefetched) ask(b []byte) []byte {
	b = wire.AppendStat(b, prefetchStatID, f.name)
	b = wire.AppendOpen(b, prefetchOpenID, f.name, wire.OpenRead, wire.Attrs{})
	for i, h := range guessedHandles {
		b = wire.AppendRead(b, uint32(prefetchReadID+i), h, 0, prefetchData)
	}
	return b
}

// take stores the answer p to one of the requests.
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

// finish picks, from the answers to the READs, the data that was read with the right handle.
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

// whole returns the content of the file if all of it arrived with the handshake, and nil otherwise.
func (f *prefetched) whole() []byte {
	if f.begins && f.stat == nil && f.attrs.Has(wire.AttrSize) && f.attrs.Size == int64(len(f.data)) && len(f.data) < prefetchData {
		return f.data
	}
	return nil
}
