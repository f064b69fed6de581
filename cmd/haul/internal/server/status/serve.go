package status

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
)

// Serve serves a board on a socket until Close, and takes the board's samples. Once the context
// `serving` has ended, the board shows that the server waits only for its last transfers.
func Serve(serving context.Context, socket net.Listener, b *Board, c Config) *Server {
	return usual.serve(serving, socket, b, c)
}

func (l limits) serve(serving context.Context, socket net.Listener, b *Board, c Config) *Server {
	ctx, end := context.WithCancel(context.Background())
	context.AfterFunc(serving, func() { b.draining.Store(true) })
	s := &Server{socket: socket, log: c.Log, limits: l, end: end, over: ctx.Done(), ended: make(chan struct{})}
	s.http = http.Server{
		Handler:                      s.admit(c, s.routes(b, c)),
		ReadHeaderTimeout:            l.header,
		ReadTimeout:                  l.header,
		IdleTimeout:                  l.idle,
		MaxHeaderBytes:               l.headerBytes,
		DisableGeneralOptionsHandler: true,
		// Log these errors only at the debug level, because strangers cause most of them.
		ErrorLog:  slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug),
		ConnState: s.count,
		Protocols: new(http.Protocols),
	}
	s.http.Protocols.SetHTTP1(true)
	listen := socket
	if c.TLS != nil {
		config := c.TLS.Clone()
		config.NextProtos = []string{"http/1.1"}
		listen = tls.NewListener(socket, config)
	}
	go b.run(ctx)
	go s.run(listen)
	return s
}
