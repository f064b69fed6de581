package activity

import (
	"path"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store"
)

// maxHeld is how many uploads may wait for their names. Others are reported at once.
const maxHeld = 1024

// held are uploads over SFTP by clients of haul that have arrived under a hidden name: the client
// gives each its name next. Until then there is nothing to be reported, and afterwards the hidden
// name would lead nowhere.
type held struct {
	mu  sync.Mutex
	all map[heldKey]*heldUpload // mu
}

type heldKey struct{ user, name string }

type heldUpload struct {
	conn  *sftp.Conn // that has closed it
	event Event
	file  *store.Published
}

// add holds an upload, if it has a hidden name. Several handles may have written one file.
func (h *held) add(t *sftp.Transfer, e Event, file *store.Published) bool {
	if !tempname.Is(path.Base(t.Name), tempname.Upload) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := heldKey{t.Conn.User, t.Name}
	before := h.all[key]
	switch {
	case before != nil:
		before.file.Close()
		sum := *before.event.Bytes + *e.Bytes
		e.Bytes = &sum
		e.took(*before.event.Began, time.Since(*before.event.Began))
	case len(h.all) >= maxHeld:
		return false
	case h.all == nil:
		h.all = map[heldKey]*heldUpload{}
	}
	h.all[key] = &heldUpload{t.Conn, e, file}
	return true
}

// take returns an upload that a client has given its name.
func (h *held) take(o *sftp.Operation) (e Event, file *store.Published, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := heldKey{o.Conn.User, o.Name}
	u := h.all[key]
	if u == nil {
		return e, nil, false
	}
	delete(h.all, key)
	e = u.event
	e.Time, e.File = time.Now(), o.To
	if dir, below := strings.CutSuffix(e.Path, o.Name); below {
		e.Path = dir + o.To
	}
	return e, u.file, true
}

// ConnEnded reports the uploads to which a connection of SFTP, which has ended, has given no names.
func (r *Reporter) ConnEnded(c *sftp.Conn) {
	if r == nil {
		return
	}
	var left []*heldUpload
	r.held.mu.Lock()
	for key, u := range r.held.all {
		if u.conn == c {
			delete(r.held.all, key)
			left = append(left, u)
		}
	}
	r.held.mu.Unlock()
	for _, u := range left {
		u.event.Event = Part
		r.finish(u.event, u.file)
	}
}
