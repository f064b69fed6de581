package sftp

import (
	"crypto/rand"
	"encoding/binary"
	"io/fs"
	"iter"
	"time"

	"github.com/haul-project/haul/sftp/internal/storewire"
	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// handleSize is how long the names are that clients get for what they open.
const handleSize = 8

// A sessionHandle is a file or a directory that a client has open.
type sessionHandle struct {
	key      string        // by which the client knows it: where in the table, and a number that is not used again
	conn     *userConn     // of the session
	name     string        // the store's, as asked for
	file     store.Handle  // of a file; nil of an upload
	upload   *hiddenUpload // a hidden one
	dir      *dirListing   // of a directory
	transfer *Transfer     // of all but directories
	readAt   int64         // session.flushes when it was last read
	ended    bool          // a read was answered by EOF
	away     error         // of a read, since the files could not be reached
	awayAt   time.Time     // and when that was
}

// path returns where the file is on the disk, "" if that is not known.
func (h *sessionHandle) path() string {
	if h.upload != nil {
		return h.upload.path
	}
	return store.LocationOf(h.file).Path
}

// A handleTable is that of a session. A handle that was closed is not mistaken
// for the next that gets its place.
type handleTable struct {
	open   []*sessionHandle
	free   []uint32 // places in open that are nil
	serial uint32   // of the next
}

// leap lets the serials continue from anywhere. Those of a session begin at zero,
// so that a client can use its first handle before the answer with it has come (see
// [ClientConfig]); all others are as good as random, so that a handle of one
// session is none of another.
func (t *handleTable) leap() {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	t.serial = binary.BigEndian.Uint32(b[:]) | 1
}

// add puts h into the table, and gives it its key.
func (t *handleTable) add(h *sessionHandle) {
	at := uint32(len(t.open))
	if n := len(t.free); n > 0 {
		at, t.free = t.free[n-1], t.free[:n-1]
	} else {
		t.open = append(t.open, nil)
	}
	var key [handleSize]byte
	binary.BigEndian.PutUint32(key[:], at)
	binary.BigEndian.PutUint32(key[4:], t.serial)
	if t.serial == 0 {
		t.leap()
	} else {
		t.serial++
	}
	h.key = string(key[:])
	t.open[at] = h
}

// get returns what a client calls key, or nil.
func (t *handleTable) get(key []byte) *sessionHandle {
	if len(key) != handleSize {
		return nil
	}
	at := binary.BigEndian.Uint32(key)
	if int64(at) >= int64(len(t.open)) || t.open[at] == nil || t.open[at].key != string(key) {
		return nil
	}
	return t.open[at]
}

func (t *handleTable) remove(h *sessionHandle) {
	at := binary.BigEndian.Uint32([]byte(h.key))
	t.open[at] = nil
	t.free = append(t.free, at)
}

// all yields what is open. It may be removed meanwhile.
func (t *handleTable) all() iter.Seq[*sessionHandle] {
	return func(yield func(h *sessionHandle) bool) {
		for _, h := range t.open {
			if h != nil && !yield(h) {
				return
			}
		}
	}
}

// file returns the open file of that key, or nil.
func (s *session) file(key []byte) *sessionHandle {
	if h := s.handles.get(key); h != nil && h.dir == nil {
		return h
	}
	return nil
}

// reserve counts a handle that is to be opened, unless there are too many.
func (c *userConn) reserve() error {
	if n := c.handles.Add(1); n > int64(c.server.maxHandles()) {
		c.handles.Add(-1)
		return storewire.ErrBusy
	}
	c.server.counts.handles.Add(1)
	return nil
}

func (c *userConn) unreserve() {
	c.handles.Add(-1)
	c.server.counts.handles.Add(-1)
}

// enter answers with the handle of what was opened, whose place is reserved.
func (s *session) enter(h *sessionHandle, flags wire.OpenFlags) {
	if h.dir == nil {
		h.transfer = &Transfer{
			Conn:   s.conn.info,
			Name:   shown(h.name),
			Path:   h.path(),
			Read:   flags&wire.OpenRead != 0,
			Write:  flags&wire.OpenWrite != 0,
			Hidden: h.upload != nil,
			Began:  time.Now(),
		}
	}
	s.handles.add(h)
	s.out.b = wire.AppendHandle(s.out.b, s.request.ID, h.key)
	if h.transfer != nil && s.conn.server.Started != nil {
		s.conn.server.Started(h.transfer)
	}
}

// release closes what a client had open. why is nil if the client did.
func (s *session) release(h *sessionHandle, why error) (err error) {
	s.handles.remove(h)
	defer s.conn.unreserve()
	if why != nil && s.delivered(h) {
		why = nil
	}
	switch {
	case h.dir != nil:
		return h.dir.entries.Close()
	case h.upload != nil:
		err = h.upload.leave(h, why)
	default:
		if h.transfer.Write && s.conn.server.Ended != nil {
			h.transfer.written(h.file)
		}
		err = h.file.Close()
	}
	h.transfer.fail(why)
	h.transfer.fail(err)
	h.transfer.Duration = time.Since(h.transfer.Began)
	if s.conn.server.Ended != nil {
		s.conn.server.Ended(h.transfer)
	}
	return err
}

// delivered reports whether the client has been sent all of a file that it only
// reads, so that there is nothing left to be done but to close it.
func (s *session) delivered(h *sessionHandle) bool {
	if h.file == nil || h.transfer.Write || s.flushes <= h.readAt {
		return false
	}
	if h.ended {
		return true
	}
	fi, err := h.file.Stat()
	sent := h.transfer.Sent()
	return err == nil && sent > 0 && sent >= fi.Size()
}

// A dirListing is an open directory.
type dirListing struct {
	entries store.Entries
	batch   [listingBatch]fs.FileInfo
	ready   []fs.FileInfo // of batch, not listed yet
	dots    []dot         // not listed yet
}

// A dot is "." or "..", which POSIX lists and stores do not.
type dot struct {
	name  string
	attrs wire.Attrs
	links uint64
}

// listingBatch is how many entries are described at a time.
const listingBatch = 64
