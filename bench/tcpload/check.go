package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	answerTime = 10 * time.Second      // time limit for opening a connection, and for an answer
	startTime  = 5 * time.Second       // how long a server may take until it listens
	startPoll  = 20 * time.Millisecond // interval between two attempts to connect
)

// A client is one connection with its read buffer.
type client struct {
	net.Conn
	r *bufio.Reader
}

func (r *request) dial(ctx context.Context) (client, error) {
	c, err := r.Dial(ctx, answerTime)
	if err != nil {
		return client{}, err
	}
	return client{c, bufio.NewReader(c)}, nil
}

// ask sends a request on a connection, and checks the answer.
func (r *request) ask(c client) error {
	_ = c.SetDeadline(time.Now().Add(answerTime))
	if _, err := c.Write(r.Request()); err != nil {
		return err
	}
	return r.Read(c.r)
}

// check makes some requests, and checks the answers, and whether the server closes the connection
// when it should.
func (r *request) check(ctx context.Context) error {
	c, err := r.first(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	const requests = 3
	for i := range requests {
		if i > 0 && r.Close {
			if c, err = r.dial(ctx); err != nil {
				return fmt.Errorf("connection %d: %w", i+1, err)
			}
			defer c.Close()
		}
		if err := r.ask(c); err != nil {
			return fmt.Errorf("request %d: %w", i+1, err)
		}
		if !r.Close {
			continue
		}
		_ = c.SetDeadline(time.Now().Add(answerTime))
		if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
			return fmt.Errorf("behind answer %d: %v, where the server is to close", i+1, err)
		}
	}
	return nil
}

// first returns the first connection. It waits until the server listens.
func (r *request) first(ctx context.Context) (client, error) {
	for end := time.Now().Add(startTime); ; {
		c, err := r.dial(ctx)
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) || time.Now().After(end) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return c, context.Cause(ctx)
		case <-time.After(startPoll):
		}
	}
}

// opening is the largest number of connections that are being opened at the same time. It is small
// so that the server's queue of new connections does not affect the measurement.
const opening = 64

// hold opens connections, makes one request on each, and keeps them open until its input ends.
func (r *request) hold(ctx context.Context, in io.Reader, out io.Writer) error {
	if r.Close {
		return errors.New("hold: connections that are closed with the answer cannot be held")
	}
	ctx, cancel := context.WithTimeout(ctx, r.length)
	defer cancel()
	open := make([]client, r.conns)
	errs := make([]error, r.conns)
	turns := make(chan struct{}, opening)
	var wg sync.WaitGroup
	for i := range r.conns {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			if open[i], errs[i] = r.dial(ctx); errs[i] == nil {
				errs[i] = r.ask(open[i])
			}
			open[i].r = nil // drop the buffer: thousands of buffers would leave less memory for the server
		})
	}
	wg.Wait()
	defer func() {
		for _, c := range open {
			if c.Conn != nil {
				c.Close()
			}
		}
	}()
	n := 0
	var failed error
	for _, err := range errs {
		if err == nil {
			n++
		} else if failed == nil {
			failed = err
		}
	}
	if _, err := fmt.Fprintf(out, "open %d\n", n); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in) // any error ends the input, and its reason does not matter
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		return fmt.Errorf("held for %v, and nobody said to end", r.length)
	}
	if n < r.conns {
		return fmt.Errorf("%d of %d connections failed, the first: %w", r.conns-n, r.conns, failed)
	}
	return nil
}
