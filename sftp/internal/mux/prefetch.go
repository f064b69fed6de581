package mux

import (
	"fmt"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
)

const (
	// prefetchData is how much of a first file is asked for: what every server
	// must answer, and what most files that only just matter are below.
	prefetchData = wire.SureData

	// prefetchLife is how long what is known of a first file is used: a later Open
	// has to see the file as it is then.
	prefetchLife = 5 * time.Second

	// prefetchStats is how often a Stat is answered by what is known: one that looks for
	// the file, and one that makes sure, before it is opened, that it is a file.
	prefetchStats = 2
)

// guessedHandles are the handles that servers are known to give out first.
// OpenSSH counts from zero, in four bytes, and so does our own in eight. A read
// from a handle that is none is refused and does no harm; one from a handle that
// turns out to be the one of the file is a round trip that was spared.
var guessedHandles = [...]string{"\x00\x00\x00\x00", "\x00\x00\x00\x00\x00\x00\x00\x00"}

// Ids of the requests for a first file.
const (
	prefetchStatID = limitsID + 1 + iota
	prefetchOpenID
	prefetchReadID // and those behind it, one for each of guessedHandles
)

// A prefetched is a file that was asked for along with the handshake.
type prefetched struct {
	name  string
	lane  *Lane
	until time.Time
	stats int // answers taken

	attrs  wire.Attrs
	stat   error // why they are not known
	handle string
	open   error // why there is no handle
	data   []byte
	begins bool // data is how the file begins
}

// ask appends the requests.
func (f *prefetched) ask(b []byte) []byte {
	b = wire.AppendStat(b, prefetchStatID, f.name)
	b = wire.AppendOpen(b, prefetchOpenID, f.name, wire.OpenRead, wire.Attrs{})
	for i, h := range guessedHandles {
		b = wire.AppendRead(b, uint32(prefetchReadID+i), h, 0, prefetchData)
	}
	return b
}

// isLarge reports whether the file is open, and has more than came with the handshake.
func (f *prefetched) isLarge() bool {
	return f.open == nil && f.stat == nil && f.attrs.Has(wire.AttrSize) && f.attrs.Size >= prefetchData
}

// prefetchIDs has a bit for each request behind INIT, and prefetchKnows for those
// that say what the file is.
const (
	prefetchIDs   = 1<<(prefetchReadID+len(guessedHandles)) - 1<<limitsID
	prefetchKnows = 1<<prefetchReadID - 1<<limitsID
)

// answers reads what comes for the requests behind INIT. Of a large file it does not wait
// for the data: that takes a round trip more than TCP's first flight, and is asked for
// again together with the rest.
func (l *Lane) answers(g *announcement) error {
	f := g.prefetched
	var read [len(guessedHandles)][]byte
	seen := 0
	for seen != prefetchIDs {
		if seen&prefetchKnows == prefetchKnows && f.isLarge() {
			l.late = prefetchIDs &^ seen
			break
		}
		p, err := l.reply()
		if err != nil {
			return err
		}
		if p.ID < limitsID || p.ID >= prefetchReadID+uint32(len(guessedHandles)) || seen&(1<<p.ID) != 0 {
			return fmt.Errorf("%w: %v for id %d, under which nothing was asked", ErrProtocol, p.Type, p.ID)
		}
		seen |= 1 << p.ID
		switch p.ID {
		case limitsID:
			if err := g.takeLimits(&p); err != nil {
				return err
			}
		case prefetchStatID:
			f.stat = TakeAttrs(&f.attrs)(&p)
		case prefetchOpenID:
			f.open = TakeHandle(&f.handle)(&p)
		default:
			if len(p.Data) > prefetchData {
				return fmt.Errorf("%w: %d bytes of data where %d were asked for", ErrProtocol, len(p.Data), prefetchData)
			}
			if p.Type == wire.TypeData {
				read[p.ID-prefetchReadID] = append([]byte{}, p.Data...)
			} else if p.Type == wire.TypeStatus && p.Status == wire.EOF {
				read[p.ID-prefetchReadID] = []byte{}
			}
		}
	}
	// One that cannot be opened is not moved, however large it is.
	if l.mux.config.Expect == ExpectFirst && f.isLarge() {
		l.mux.expect(f.attrs.Size)
	}
	for i, h := range guessedHandles {
		if f.open == nil && f.handle == h && read[i] != nil {
			f.data, f.begins = read[i], true
		}
	}
	f.until = time.Now().Add(prefetchLife)
	return nil
}

// isLate reports whether an answer is one that the handshake has not waited for. It does
// so once for each. Only the reader of the lane calls it.
func (l *Lane) isLate(id uint32) bool {
	if id >= prefetchReadID+uint32(len(guessedHandles)) || l.late&(1<<id) == 0 {
		return false
	}
	l.late &^= 1 << id
	return true
}

// whole returns all of a file, if what came with the handshake is just that.
func (f *prefetched) whole() []byte {
	if f.begins && f.stat == nil && f.attrs.Has(wire.AttrSize) && f.attrs.Size == int64(len(f.data)) && len(f.data) < prefetchData {
		return f.data
	}
	return nil
}

// takePrefetched returns what is known of a first file, once, if it is the one that
// is to be opened now, and on a lane that is alive.
func (m *Mux) takePrefetched(name string) *prefetched {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.prefetched
	if f == nil || f.name != name {
		return nil
	}
	m.prefetched = nil
	if f.lane.err == nil && time.Now().Before(f.until) {
		return f
	}
	if f.open == nil {
		m.CloseHandle(Handle{f.lane, f.handle})
	}
	return nil
}

// PrefetchedAttrs returns the answer to the prefetched STAT, a few times.
func (m *Mux) PrefetchedAttrs(name string) (wire.Attrs, error, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.prefetched
	if f == nil || f.name != name || f.stats == prefetchStats || !time.Now().Before(f.until) {
		return wire.Attrs{}, nil, false
	}
	f.stats++
	return f.attrs, m.config.Refused(f.stat), true
}
