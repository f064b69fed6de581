package webclient

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/haul-project/haul/internal/servertext"
)

// The permissions that are reported for all files and directories, because HTTP has no permissions.
const (
	clientFilePerm = 0o644
	clientDirPerm  = 0o755
)

// A fileInfo describes a file on the server.
type fileInfo struct {
	name    string
	dir     bool
	version version
	listed  time.Time // the time in the listing; zero if the listing shows no time
	partial bool      // the description comes from a listing that has neither size nor time
}

// Name returns the last element of the name.
func (i fileInfo) Name() string { return i.name }

// Size returns the size; -1 if the server does not send it.
func (i fileInfo) Size() int64 {
	if i.dir {
		return 0
	}
	return i.version.size
}

// Mode returns the mode of a regular file or a directory, with fixed permissions.
func (i fileInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | clientDirPerm
	}
	return clientFilePerm
}

// ModTime returns the time of modification; zero if the server does not send it.
func (i fileInfo) ModTime() time.Time {
	if t := i.version.time(); !t.IsZero() {
		return t
	}
	return i.listed
}

func (i fileInfo) IsDir() bool { return i.dir }
func (i fileInfo) Sys() any    { return nil }

// Version returns the same string as the method Version of the open file.
func (i fileInfo) Version() string { return i.version.key() }

// describe returns the description of a file, from the headers of an answer that contains the whole
// file or its first byte. If describe fails, it closes the answer.
func (c *Client) describe(a *response, name string) (fileInfo, error) {
	info := fileInfo{name: path.Base(name)}
	if isDirectory(a, c.urlOf(name, false).Path) {
		switch a.StatusCode {
		case http.StatusOK, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable:
			info.dir = true // even if the server does not list it
			return info, nil
		}
	}
	var size int64
	part := a.StatusCode == http.StatusPartialContent || a.StatusCode == http.StatusRequestedRangeNotSatisfiable
	switch {
	case a.StatusCode == http.StatusOK:
		size = a.ContentLength
	case part && a.Request.Header.Get("Range") != "":
		r, err := parseContentRange(a.Header.Get("Content-Range"))
		if err != nil || a.StatusCode != http.StatusPartialContent && r.total != 0 {
			return info, statusError(a)
		}
		size = r.total
	default:
		return info, refusalError(a)
	}
	if err := checkEncoding(a, name); err != nil {
		a.close()
		return info, err
	}
	info.version = versionOf(a.Header, size)
	return info, nil
}

// isDirectory reports whether an answer is about a directory: the server redirected a name without
// a slash to the name with one.
func isDirectory(a *response, asked string) bool {
	got := a.Request.URL.Path
	return !strings.HasSuffix(asked, "/") && strings.HasSuffix(got, "/") && path.Base(got) == path.Base(asked)
}

// checkEncoding returns an error for a file with a content coding. Many servers declare a
// compressed file's own format as its coding by mistake; such a file arrives unchanged and is
// accepted.
func checkEncoding(a *response, name string) error {
	e := strings.ToLower(strings.TrimSpace(a.Header.Get("Content-Encoding")))
	switch {
	case e == "", e == "identity":
		return nil
	case (e == "gzip" || e == "x-gzip") && (strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".tgz")):
		return nil
	}
	return fmt.Errorf("%w: as %s", ErrEncoded, servertext.Cut(e))
}

// refusalError is like statusError. For a success status, which is not the expected one, it returns
// an ErrProtocol.
func refusalError(a *response) error {
	if a.StatusCode/100 != 2 {
		return statusError(a)
	}
	a.close()
	return fmt.Errorf("%w: the status %d to a %s", ErrProtocol, a.StatusCode, a.Request.Method)
}

// statusError returns the error for an answer, and closes the answer.
func statusError(a *response) error {
	defer a.close()
	e := &StatusError{Code: a.StatusCode, kind: kindOfStatus(a.StatusCode)}
	e.After, _ = parseRetryAfter(a.Header.Get("Retry-After"), time.Now())
	if strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain") && a.Request.Method != http.MethodHead {
		line, _ := bufio.NewReader(io.LimitReader(a, servertext.Max+1)).ReadString('\n')
		e.Message = servertext.Cut(line)
	}
	return e
}
