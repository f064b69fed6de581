package mux

import (
	"fmt"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// The following functions check the answer to a call and store its content. If the answer is a
// STATUS with an error code, they return a *wire.StatusError, which Config.Refused converts for the
// caller. If the answer has an unexpected type, they return an ErrProtocol.

// Unexpected returns the error for an answer p whose type is not `want`. If p is a STATUS with an
// error code, that is the error.
func Unexpected(p *wire.Reply, want wire.Type) error {
	if p.Type == wire.TypeStatus {
		if err := p.Err(); err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %v in place of %v", ErrProtocol, p.Type, want)
}

// TakeOK expects a STATUS that reports success.
func TakeOK(p *wire.Reply) error {
	if p.Type == wire.TypeStatus && p.Status == wire.OK {
		return nil
	}
	return Unexpected(p, wire.TypeStatus)
}

// TakeHandle returns a function that expects a HANDLE and stores it in *h.
func TakeHandle(h *string) func(*wire.Reply) error {
	return func(p *wire.Reply) error {
		if p.Type != wire.TypeHandle {
			return Unexpected(p, wire.TypeHandle)
		}
		*h = string(p.Handle)
		return nil
	}
}

// TakeAttrs returns a function that expects an ATTRS and stores it in *a.
func TakeAttrs(a *wire.Attrs) func(*wire.Reply) error {
	return func(p *wire.Reply) error {
		if p.Type != wire.TypeAttrs {
			return Unexpected(p, wire.TypeAttrs)
		}
		*a = p.Attrs
		return nil
	}
}

// TakeExtended returns a function that expects an EXTENDED_REPLY and passes it to parse.
func TakeExtended(parse func(*wire.Reply) error) func(*wire.Reply) error {
	return func(p *wire.Reply) error {
		if p.Type != wire.TypeExtendedReply {
			return Unexpected(p, wire.TypeExtendedReply)
		}
		return Violation(parse(p))
	}
}

// TakeHash returns a function that expects the answer of check-file, and stores copies of its
// content.
func TakeHash(algorithm *string, sum *[]byte) func(*wire.Reply) error {
	return TakeExtended(func(p *wire.Reply) error {
		chosen, hashes, err := p.CheckFile()
		*algorithm, *sum = string(chosen), append([]byte(nil), hashes...)
		return err
	})
}

// TakeStatVFS returns a function that expects the answer of statvfs and stores it in *v.
func TakeStatVFS(v *wire.StatVFS) func(*wire.Reply) error {
	return TakeExtended(func(p *wire.Reply) (err error) {
		*v, err = p.StatVFS()
		return err
	})
}

// TakeName returns a function that expects a NAME with one name and stores it in *name.
func TakeName(name *string) func(*wire.Reply) error {
	return func(p *wire.Reply) error {
		if p.Type != wire.TypeName {
			return Unexpected(p, wire.TypeName)
		}
		e, ok := p.Names.One()
		if !ok {
			return fmt.Errorf("%w: %d names in place of one", ErrProtocol, p.Names.Len())
		}
		*name = string(e.Name)
		return nil
	}
}
