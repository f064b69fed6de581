package webclient

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"github.com/haul-project/haul/store"
)

// The header fields of uploads in parts: a server that answers OPTIONS with the
// first keeps what has come of a PUT with a Content-Range (RFC 9110 §14.5) and an
// Upload-Source, and reports by Upload-Offset how much that is.
//
// Other servers are sent no such thing: many take a part for the whole.
const (
	acceptUploadRange = "Accept-Upload-Range"
	uploadOffset      = "Upload-Offset"
)

const (
	// keptFrom is from how many bytes on an upload is sent as one part, if the server
	// takes those, so that it need not begin anew when the connection is lost: haul's
	// server has something of it to resume from after 16 MiB. Smaller uploads are sent
	// again as a whole.
	keptFrom = 32 << 20

	// maxRestarts is how often an upload is begun anew of which the server keeps
	// nothing: what cuts it off may be a bound that it has, and not an accident.
	maxRestarts = 2

	// maxForget is how long an upload that has failed waits for the server to
	// give up what it keeps.
	maxForget = 2 * time.Second
)

// A resumableUpload is an upload that can be resumed later.
type resumableUpload struct {
	*putUpload
	resumed int64
}

var _ store.Resumer = (*resumableUpload)(nil)

// Resumed returns how much the server has from before.
func (r *resumableUpload) Resumed() int64 { return r.resumed }

// Discard ends the upload. The next to the same name begins anew, and the server
// gives up what it has then.
func (r *resumableUpload) Discard() error {
	r.c.mu.Lock()
	r.c.anew[r.name] = true
	r.c.mu.Unlock()
	return r.Close()
}

// takeAnew reports whether an upload is to begin anew, once.
func (c *Client) takeAnew(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	anew := c.anew[name]
	delete(c.anew, name)
	return anew
}

// uploadSource says of which content an upload is, and whose, in a header.
func uploadSource(o store.Create) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s", len(o.Resume), o.Resume, o.Source))
	return hex.EncodeToString(sum[:])
}

// takesParts reports whether the server takes uploads in parts.
func (c *Client) takesParts(ctx context.Context, e *attempts, name string) (bool, error) {
	c.mu.Lock()
	parts := c.parts
	c.mu.Unlock()
	if parts != 0 {
		return parts > 0, nil
	}
	a, err := c.askFor(ctx, e, request{method: http.MethodOptions, url: c.urlOf(name, false)})
	if err != nil {
		return false, err
	}
	a.close()
	parts = -1
	if a.StatusCode/100 == 2 && a.Header.Get(acceptUploadRange) == "bytes" {
		parts = 1
	}
	c.mu.Lock()
	c.parts = parts
	c.mu.Unlock()
	return parts > 0, nil
}

// askKept asks how much the server has kept of an upload from a source, and whether
// it would keep anything.
func (c *Client) askKept(ctx context.Context, e *attempts, name, source string, o store.Create) (there int64, kept bool, err error) {
	if ok, err := c.takesParts(ctx, e, name); err != nil || !ok {
		return 0, false, err
	}
	h := http.Header{"Content-Range": {fmt.Sprintf("bytes */%d", o.Size)}, "Upload-Source": {source}}
	if o.Exclusive {
		h.Set("If-None-Match", "*")
	}
	a, err := c.askFor(ctx, e, request{method: http.MethodPut, url: c.urlOf(name, false), header: h})
	if err != nil {
		return 0, false, err
	}
	switch a.StatusCode {
	case http.StatusAccepted:
	case http.StatusBadRequest, http.StatusNotImplemented:
		a.close()
		return 0, false, nil // here it does not, as for want of a place to keep it
	case http.StatusNotFound, http.StatusConflict:
		return 0, false, c.refusedBelow(ctx, name, statusError(a))
	default:
		return 0, false, refusalError(a)
	}
	a.close()
	there, err = parseLength(a.Header.Get(uploadOffset))
	if err != nil || there > o.Size {
		return 0, false, fmt.Errorf("%w: the %s %q of an upload of %d bytes", ErrProtocol, uploadOffset, cutText(a.Header.Get(uploadOffset)), o.Size)
	}
	return min(there, o.Size-1), true, nil // the last byte is what Commit sends
}

// goOn resumes an upload that was cut off: where the server has it, or from its
// start if the server keeps nothing.
func (u *putUpload) goOn(e *attempts) error {
	if u.body.sent() > u.body.begin() {
		u.vain++
	}
	if u.kept {
		there, kept, err := u.c.askKept(u.ctx, e, u.name, u.source, u.create)
		switch {
		case err != nil:
			return err
		case kept:
			return u.goOnFrom(e, there)
		}
		u.kept = false
	}
	switch {
	case u.vain > maxRestarts:
		return fmt.Errorf("%w: the server keeps nothing of an upload that is cut off, and it was begun %d times", ErrLost, u.vain)
	case !u.body.restart(0):
		return fmt.Errorf("%w: the server keeps nothing of an upload that is cut off, and what was sent cannot be read again", ErrLost)
	}
	return nil
}

// goOnFrom resumes an upload where the server says that it has it.
func (u *putUpload) goOnFrom(e *attempts, there int64) error {
	if there > u.reached {
		u.reached, u.vain = there, 0
		e.moved()
	}
	switch {
	case there > u.high:
		return fmt.Errorf("%w: it has %d bytes of an upload of which %d were sent", ErrProtocol, there, u.high)
	case u.vain >= maxTries:
		return fmt.Errorf("%w: the server has no more of the upload than %d bytes, though more was sent %d times", ErrLost, there, u.vain)
	case !u.body.restart(there):
		return fmt.Errorf("%w: the server has %d bytes of the upload, from where it cannot be resumed", ErrLost, there)
	}
	return nil
}

// forget has the server give up what it keeps of an upload that will not be
// resumed: it does when it is asked for another source. If that fails, the server
// does in the end.
func (u *putUpload) forget() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), maxForget)
	defer cancel()
	_, _, _ = u.c.askKept(ctx, new(attempts), u.name, rand.Text(), u.create)
}
