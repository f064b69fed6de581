package sendfile

import (
	"io"
	"io/fs"
	"net"
	"os"
	"reflect"
	"syscall"
)

// IsFile reports whether r is a file of package os itself. A program's own type that wraps a file
// does not count, because it may return other bytes than the file.
//
// An os.File's WriteTo may call io.Copy with the file wrapped in an unexported type of package os,
// which hides WriteTo. That type counts as a file.
func IsFile(r io.Reader) bool {
	_, ok := r.(*os.File)
	return ok || IsOf(r, "os", "fileWithoutWriteTo")
}

// IsRegular reports whether r is a regular file, whose reads never wait for another program.
func IsRegular(r io.Reader) bool {
	f, ok := r.(fs.File)
	if !ok || !IsFile(r) {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// IsOf reports whether v has the type with the given name, in the standard library's package with
// the given path. Packages of programs never have such a path.
func IsOf(v any, path, name string) bool {
	t := reflect.TypeOf(v)
	return t != nil && t.PkgPath() == path && t.Name() == name
}

// IsStream reports whether v is a TCP or unix stream connection of package net itself.
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

// RawOf returns access to the descriptor of v, or nil if v has none.
func RawOf(v any) syscall.RawConn {
	s, ok := v.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil // a copy through this process will return the same error
	}
	return raw
}
