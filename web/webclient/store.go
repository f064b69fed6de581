package webclient

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/haul-project/haul/store"
)

// Stat describes the file or directory with the name. The size of a file is -1 if the server does
// not send it. The root is assumed to be a directory, without a request.
func (c *Client) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	fi, err := c.stat(ctx, name)
	if err != nil {
		return nil, c.fail("stat", name, err)
	}
	return fi, nil
}

func (c *Client) stat(ctx context.Context, name string) (fileInfo, error) {
	if err := checkName(ctx, name); err != nil {
		return fileInfo{}, err
	}
	if name == "." {
		return fileInfo{name: ".", dir: true}, nil
	}
	if name == c.config.First {
		if a, info, err := c.beginFirst(ctx, name); a != nil || err != nil {
			return info, err
		}
	}
	a, err := c.ask(ctx, request{method: http.MethodHead, url: c.urlOf(name, false)})
	if err != nil {
		return fileInfo{}, err
	}
	switch a.StatusCode {
	case http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		if isDirectory(a, c.urlOf(name, false).Path) {
			break
		}
		// A URL may be signed only for GET, and a small server may support nothing else.
		a.close()
		h := http.Header{"Range": {"bytes=0-0"}}
		if a, err = c.ask(ctx, request{method: http.MethodGet, url: c.urlOf(name, false), header: h}); err != nil {
			return fileInfo{}, err
		}
	}
	info, err := c.describe(a, name)
	if err == nil {
		a.close()
	}
	return info, err
}

// beginFirst requests the file that will be opened first, and keeps the answer for Open. Only the
// first call does so; later ones return nil.
func (c *Client) beginFirst(ctx context.Context, name string) (*response, fileInfo, error) {
	c.mu.Lock()
	stated := c.stated
	c.stated = true
	c.mu.Unlock()
	if stated {
		return nil, fileInfo{}, nil
	}
	a, err := c.ask(ctx, request{method: http.MethodGet, url: c.urlOf(name, false)})
	if err != nil {
		return nil, fileInfo{}, err
	}
	info, err := c.describe(a, name)
	if err != nil {
		return nil, fileInfo{}, err
	}
	if info.dir {
		a.close()
		return a, info, nil
	}
	a.follow(c.life)
	c.mu.Lock()
	c.first = a
	c.mu.Unlock()
	return a, info, nil
}

// takeFirst returns the answer that beginFirst has kept for a name, and nil if there is no such answer
// or it was returned before.
func (c *Client) takeFirst(name string) *response {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.first
	if a == nil || name != c.config.First {
		return nil
	}
	c.first = nil
	return a
}

// Open opens a file for reading. The result is a [store.RemoteFile] and a [store.Versioned].
func (c *Client) Open(ctx context.Context, name string) (store.File, error) {
	f, err := c.open(ctx, name)
	if err != nil {
		return nil, c.fail("open", name, err)
	}
	return f, nil
}

// openStream opens a file whose FetchTo reads everything from the answer to Open, and sends no
// further request. So a file that is replaced meanwhile still arrives whole.
func (c *Client) openStream(ctx context.Context, name string) (store.File, error) {
	f, err := c.open(ctx, name)
	if err != nil {
		return nil, c.fail("open", name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.single = true
	return f, nil
}

func (c *Client) open(ctx context.Context, name string) (*remoteFile, error) {
	if err := checkName(ctx, name); err != nil {
		return nil, err
	}
	if name == "." {
		return nil, store.ErrNotRegular
	}
	a := c.takeFirst(name)
	if a == nil {
		var err error
		if a, err = c.ask(ctx, request{method: http.MethodGet, url: c.urlOf(name, false)}); err != nil {
			return nil, err
		}
	}
	info, err := c.describe(a, name)
	if err != nil {
		return nil, err
	}
	if info.dir {
		a.close()
		return nil, store.ErrNotRegular
	}
	return newRemoteFile(ctx, c, name, info, a), nil
}

// Remove removes a file by DELETE (RFC 9110 §9.3.5), if the server supports that.
func (c *Client) Remove(ctx context.Context, name string) error {
	return c.fail("remove", name, c.remove(ctx, name))
}

func (c *Client) remove(ctx context.Context, name string) error {
	if err := checkName(ctx, name); err != nil {
		return err
	}
	if name == "." {
		return fmt.Errorf("%w: it is the root", fs.ErrPermission)
	}
	a, err := c.sendAs(ctx, request{method: http.MethodDelete, url: c.urlOf(name, false)})
	if err != nil {
		return lost(err, 1)
	}
	switch a.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		a.close()
		return nil
	case http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return fmt.Errorf("nothing can be removed there: %w", statusError(a))
	}
	return statusError(a)
}

// Capabilities returns the capabilities of HTTP. The server may create a directory when a file is
// sent there. The time of a file is that of its upload. Before an upload is resumed, the server
// compares the bytes that it kept with Create.Source.
func (c *Client) Capabilities() store.Capabilities {
	return store.Capabilities{
		Features:   store.Features{OwnTimes: true, ImpliedDirs: true, VerifiedResume: true, NoModes: true, WholeFiles: true},
		ReadDir:    c.ReadDir,
		Remove:     c.Remove,
		OpenStream: c.openStream,
	}
}
