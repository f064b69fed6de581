package webclient

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"

	"github.com/haul-project/haul/internal/servertext"
	"github.com/haul-project/haul/store"
)

// These are header fields of uploads in parts. A server that sends Accept-Upload-Range in its
// answer to OPTIONS keeps the data of a PUT with a Content-Range (RFC 9110 §14.5) and an
// Upload-Source. It reports in Upload-Offset how many bytes it has.
//
// The client sends no parts to other servers, because many take a part for the whole file.
const (
	acceptUploadRange = "Accept-Upload-Range"
	uploadOffset      = "Upload-Offset"
)

const (
	// keptFrom is the smallest size of an upload that is sent as one part, if the server supports
	// parts. The upload can then resume if the connection is lost. haul's server can resume an
	// upload once it has 16 MiB. Smaller uploads are sent again as a whole.
	keptFrom = 32 << 20
)

// takeAnew reports whether an upload must start from scratch. It returns true once after
// each Discard.
func (c *Client) takeAnew(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	anew := c.anew[name]
	delete(c.anew, name)
	return anew
}

// uploadSource returns the value of Upload-Source, which identifies the content of an upload and
// its owner.
func uploadSource(o store.Create) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\x00%s\x00%s", len(o.Resume), o.Resume, o.Source))
	return hex.EncodeToString(sum[:])
}

// takesParts reports whether the server accepts uploads in parts. It keeps the answer, unless the
// server was only busy or had a fault.
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
	switch {
	case a.StatusCode/100 == 2 && a.Header.Get(acceptUploadRange) == "bytes":
		parts = 1
	case hasNoTime(a.StatusCode), a.StatusCode == http.StatusInternalServerError:
		return false, nil
	default:
		parts = -1
	}
	c.mu.Lock()
	c.parts = parts
	c.mu.Unlock()
	return parts > 0, nil
}

// askKept asks the server how many bytes it has kept of an upload with the given source. kept is false
// if the server keeps no parts of uploads to this name.
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
		return 0, false, nil // the server keeps no parts here, for example because it has no place for them
	case http.StatusNotFound, http.StatusConflict:
		return 0, false, c.refusedBelow(ctx, name, statusError(a))
	default:
		return 0, false, refusalError(a)
	}
	a.close()
	there, err = parseLength(a.Header.Get(uploadOffset))
	if err != nil || there > o.Size {
		return 0, false, fmt.Errorf("%w: the %s %q of an upload of %d bytes", ErrProtocol, uploadOffset, servertext.Cut(a.Header.Get(uploadOffset)), o.Size)
	}
	return min(there, o.Size-1), true, nil // leave the last byte to Commit, even if the server has it
}

// refusedBelow checks whether an upload was refused because its directory is missing. If so, it
// adds the reason, and what to do, to the refusal. In this case WebDAV servers answer 409 (RFC 4918
// §9.7.1), and other servers 404. But a 409 may have many other causes.
func (c *Client) refusedBelow(ctx context.Context, name string, refusal error) error {
	dir := path.Dir(name)
	if dir == "." {
		return refusal
	}
	if _, err := c.stat(ctx, dir); !errors.Is(err, fs.ErrNotExist) {
		return refusal
	}
	return fmt.Errorf("%w; the directory %s is missing, and the server makes none for a file: make it there first", refusal, c.URL(dir))
}
