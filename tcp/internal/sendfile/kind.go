package sendfile

import (
	"io"
	"io/fs"
	"net"
	"os"
	"reflect"
	"syscall"
)

// IsFile reports whether r is a plain file of package os. A program's own type around a file does
// not count, because it may return bytes other than the file's.
//
// The WriteTo of a file may call io.Copy with a value of an unexported type that lacks WriteTo.
// That type counts as a file.
func IsFile(r io.Reader) bool {
	_, ok := r.(*os.File)
	return ok || IsOf(r, "os", "fileWithoutWriteTo")
}

// IsRegular reports whether r is a regular file, which never waits for a peer.
func IsRegular(r io.Reader) bool {
	f, ok := r.(fs.File)
	if !ok || !IsFile(r) {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// IsOf reports whether the type of v is the type of the given name in a package of the standard
// library. No program's own package has such a path.
func IsOf(v any, path, name string) bool {
	t := reflect.TypeOf(v)
	return t != nil && t.PkgPath() == path && t.Name() == name
}

// IsStream reports whether v is a plain stream connection of package net.
func IsStream(v any) bool {
	switch c := v.(type) {
	case *net.TCPConn:
		return true
	case *net.UnixConn:
		a, ok := c.LocalAddr().(*net.UnixAddr)
		return ok && a.Net == "unix"
	}
	return false
}

// RawOf returns the descriptor of v, or nil.
func RawOf(v any) syscall.RawConn {
	s, ok := v.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil // the copy without the kernel returns the error
	}
	return raw
}
