//go:build ignore

// Tcpserver is a program of the suite around the library github.com/maurice2k/tcpserver, which it
// uses as the library's examples do: see package tcpprog. It is not part of the bench module,
// because the library cannot be fetched everywhere. scripts/install-bench-peers builds it where
// possible.
package main

import (
	"context"

	"github.com/maurice2k/tcpserver"

	"github.com/haul-project/haul/bench/tcpprog"
)

func main() { tcpprog.Main("tcpserver", serve) }

func serve(ctx context.Context, o tcpprog.Options) error {
	if err := o.Only(false, true, true); err != nil {
		return err
	}
	r, err := tcpprog.NewResponder(o)
	if err != nil {
		return err
	}
	config, err := o.TLS()
	if err != nil {
		return err
	}
	s, err := tcpserver.NewServer(o.Listen)
	if err != nil {
		return err
	}
	s.SetListenConfig(&tcpserver.ListenConfig{SocketReusePort: true, SocketDeferAccept: o.Defer})
	s.SetRequestHandler(func(c tcpserver.Connection) { r.Serve(c) })
	if config != nil {
		s.SetTLSConfig(config)
		err = s.ListenTLS()
	} else {
		err = s.Listen()
	}
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = s.Halt() })
	return s.Serve()
}
