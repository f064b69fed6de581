package tcpprog

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// headTime bounds how long a client may take for a request's head, at net/http.
const headTime = 30 * time.Second

// ServeHTTP has net/http serve with the options, over whatever listener. It
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
	defer context.AfterFunc(ctx, func() { _ = s.Close() })() // what it closes is about to disappear
	err := serve(s)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// bodies are those of answers that are encrypted.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// httpAnswer gives the answer with the same head that the others write.
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
		_, _ = w.Write(body) // a client that has gone is no matter
	})
}
