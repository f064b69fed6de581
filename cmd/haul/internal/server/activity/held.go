package activity

import (
	"path"
	"strings"
	"sync"
	"time"

	"github.com/haul-project/haul/internal/shares"
	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/store"
)

// maxHeld is how many uploads may wait until their clients rename them. A user may take as many of
// these places as are still free. Further uploads are reported at once.
const maxHeld = 1024

var heldBound = shares.Bound{Most: maxHeld, Times: 1}

// held keeps SFTP uploads that clients of haul have written to temporary files. The client renames
// the temporary file next. The upload is reported only then, because its final name is not known
// earlier.
type held struct {
	mu    sync.Mutex
	all   map[heldKey]*heldUpload // guarded by mu
	users shares.Table            // the number of uploads in all, of each user
}

type heldKey struct{ user, name string }

func (k heldKey) source() shares.Source { return shares.Source{User: k.user} }

type heldUpload struct {
	conn  *sftp.Conn // the connection that closed the file
	event Event
	file  *store.Published
}

// add keeps an upload if its file is a temporary file, and reports whether it did. If several
// handles have written the same file, add joins their events into one.
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
	case !h.users.Take(key.source(), 1, heldBound):
		return false
	case h.all == nil:
		h.all = map[heldKey]*heldUpload{}
	}
	h.all[key] = &heldUpload{t.Conn, e, file}
	return true
}

// take removes and returns the upload whose temporary file a client has renamed to its final name.
// ok is false if the file is not a kept upload.
func (h *held) take(o *sftp.Operation) (e Event, file *store.Published, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := heldKey{o.Conn.User, o.Name}
	u := h.all[key]
	if u == nil {
		return e, nil, false
	}
	h.remove(key)
	e = u.event
	e.Time, e.File = time.Now(), o.To
	if dir, below := strings.CutSuffix(e.Path, o.Name); below {
		e.Path = dir + o.To
	}
	return e, u.file, true
}

// remove forgets an upload. The caller holds mu.
func (h *held) remove(key heldKey) {
	delete(h.all, key)
	h.users.Give(key.source(), 1)
}

// ConnEnded reports the uploads that a client did not rename before its SFTP connection ended.
func (r *Reporter) ConnEnded(c *sftp.Conn) {
	if r == nil {
		return
	}
	var left []*heldUpload
	r.held.mu.Lock()
	for key, u := range r.held.all {
		if u.conn == c {
			r.held.remove(key)
			left = append(left, u)
		}
	}
	r.held.mu.Unlock()
	for _, u := range left {
		u.event.Event = Part
		r.finish(u.event, u.file)
	}
}
