package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/store"
)

// The words of uploads in parts: a server that answers OPTIONS with the first
// keeps what has come of a PUT with a Content-Range (RFC 9110 §14.5) and an
// Upload-Source, and tells by Upload-Offset how much that is.
//
// Others are sent no such thing: many take a part for the whole.
const (
	acceptUploadRange = "Accept-Upload-Range"
	uploadOffset      = "Upload-Offset"
)

// A clientResumer is an upload that can go on another time.
type clientResumer struct {
	*clientUpload
	resumed int64
}

var _ store.Resumer = (*clientResumer)(nil)

// Resumed returns how much the server has from before.
func (r *clientResumer) Resumed() int64 { return r.resumed }

// HeldSource reports that the server has itself held what it kept against
// Create.Source, by which the two are the same.
func (r *clientResumer) HeldSource() bool { return true }

// Discard ends the upload. The next to the same name begins anew, and the server
// gives up what it has then.
func (r *clientResumer) Discard() error {
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
func (c *Client) takesParts(ctx context.Context, name string) (bool, error) {
	c.mu.Lock()
	parts := c.parts
	c.mu.Unlock()
	if parts != 0 {
		return parts > 0, nil
	}
	a, err := c.ask(ctx, clientRequest{method: http.MethodOptions, url: c.urlOf(name, false)})
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

// askKept asks how much the server has kept of an upload, and whether it would
// keep anything.
func (c *Client) askKept(ctx context.Context, name string, o store.Create) (there int64, kept bool, err error) {
	if ok, err := c.takesParts(ctx, name); err != nil || !ok {
		return 0, false, err
	}
	h := http.Header{"Content-Range": {fmt.Sprintf("bytes */%d", o.Size)}, "Upload-Source": {uploadSource(o)}}
	if o.Exclusive {
		h.Set("If-None-Match", "*")
	}
	a, err := c.ask(ctx, clientRequest{method: http.MethodPut, url: c.urlOf(name, false), header: h})
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
		return 0, false, clientRefusal(a)
	}
	a.close()
	there, err = parseLength(a.Header.Get(uploadOffset))
	if err != nil || there > o.Size {
		return 0, false, fmt.Errorf("%w: the %s %q of an upload of %d bytes", ErrClientProtocol, uploadOffset, cutText(a.Header.Get(uploadOffset)), o.Size)
	}
	return min(there, o.Size-1), true, nil // the last byte is what Commit sends
}

// goOn has an upload that was cut off go on where the server has it, and returns
// where that is.
func (u *clientUpload) goOn(tries int) (there int64, err error) {
	if err := rate.Sleep(u.ctx, u.c.backOff(tries)); err != nil {
		return 0, err
	}
	there, kept, err := u.c.askKept(u.ctx, u.name, u.create)
	if err != nil {
		return 0, err
	}
	if !kept || !u.body.restart(there) {
		return 0, fmt.Errorf("%w: the server has %d bytes of the upload, from where it cannot go on", ErrClientLost, there)
	}
	return there, nil
}
