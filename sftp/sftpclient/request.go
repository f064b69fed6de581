package sftpclient

import (
	"context"
	"io/fs"
	"strings"

	"github.com/haul-project/haul/internal/tempname"
	"github.com/haul-project/haul/sftp/internal/mux"
	"github.com/haul-project/haul/sftp/internal/wire"
)

// checkPath returns fs.ErrInvalid for a name that cannot be sent to a server.
func checkPath(name string) error {
	if name == "" || len(name) > wire.MaxPath || strings.IndexByte(name, 0) >= 0 {
		return fs.ErrInvalid
	}
	return nil
}

// pathCall returns a Build function for a call with one name.
func pathCall(append func(b []byte, id uint32, name string) []byte, name string) func([]byte, uint32) []byte {
	return func(b []byte, id uint32) []byte { return append(b, id, name) }
}

// one sends a request with one name, and waits for the answer.
func (c *Client) one(ctx context.Context, op, name string, k mux.Call, append func(b []byte, id uint32, name string) []byte) error {
	err := checkPath(name)
	if err == nil {
		k.Build = pathCall(append, name)
		err = c.mux.Do(ctx, &k)
	}
	if err != nil {
		return pathError(op, name, err)
	}
	return nil
}

// two sends a request with two names, and waits for the answer.
func (c *Client) two(ctx context.Context, op, from, to string, k mux.Call, append func(b []byte, id uint32, from, to string) []byte) error {
	err := checkPath(from)
	if err == nil {
		err = checkPath(to)
	}
	if err == nil {
		k.Build = func(b []byte, id uint32) []byte { return append(b, id, from, to) }
		err = c.mux.Do(ctx, &k)
	}
	if err != nil {
		return linkError(op, from, to, err)
	}
	return nil
}

// isUpload reports whether a name without directory is the name of a temporary file, or of an
// upload's record.
func isUpload(name string) bool { return tempname.Is(name, tempname.Upload, tempname.Record) }
