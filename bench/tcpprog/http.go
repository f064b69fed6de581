package tcpprog

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// headTime is how long a client may take to send the head of a request to net/http.
const headTime = 30 * time.Second

// ServeHTTP serves with net/http according to the options. `serve` chooses the listener. ServeHTTP
// returns when ctx has ended.
func ServeHTTP(ctx context.Context, o Options, serve func(*http.Server) error) error {
	handler := http.FileServer(http.Dir(o.Dir))
	if o.Dir == "" {
		r, err := NewResponder(o)
		if err != nil {
			return err
		}
		handler = httpAnswer(r)
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: headTime}
	s.SetKeepAlivesEnabled(!o.Close)
	defer context.AfterFunc(ctx, func() { _ = s.Close() })() // the program is about to exit, so an error does not matter
	err := serve(s)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// bodies holds buffers for encrypted answers.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// httpAnswer returns a handler that sends the answer, with the same head as the other servers.
func httpAnswer(r *Responder) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if r.Delay > 0 {
			time.Sleep(r.Delay)
		}
		scratch := bodies.Get().(*[]byte)
		defer bodies.Put(scratch)
		body := r.Body(scratch)
		h := w.Header()
		h["Date"], h["Content-Type"] = nil, nil
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
		_, _ = w.Write(body) // an error means that the client has disconnected
	})
}
