// Pool is a server on package net that reuses its goroutines with their grown stacks, and accepts
// in several of them, as maurice2k/tcpserver does. It is for machines that cannot fetch the
// latter. See package tcpprog.
package main

import (
	"context"
	"net"
	"time"

	"github.com/haul-project/haul/bench/tcpprog"
)

func main() { tcpprog.Main("pool", serve) }

const (
	acceptors = 8               // goroutines that accept
	idleTime  = 5 * time.Second // after which a goroutine without a connection ends
)

func serve(ctx context.Context, o tcpprog.Options) error {
	if err := o.Only(false, true, false); err != nil {
		return err
	}
	r, err := tcpprog.NewResponder(o)
	if err != nil {
		return err
	}
	l, err := o.Listener(ctx)
	if err != nil {
		return err
	}
	p := &pool{r: r, conns: make(chan net.Conn)}
	failed := make(chan error, acceptors)
	for range acceptors {
		go func() { failed <- p.accept(l) }()
	}
	return <-failed // the first failure ends the program
}

type pool struct {
	r     *tcpprog.Responder
	conns chan net.Conn // to goroutines that wait for one
}

func (p *pool) accept(l net.Listener) error {
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		select {
		case p.conns <- c:
		default:
			go p.work(c)
		}
	}
}

// work serves a connection, and then others.
func (p *pool) work(c net.Conn) {
	over := time.NewTimer(idleTime)
	defer over.Stop()
	for {
		p.r.Serve(c)
		c.Close()
		over.Reset(idleTime)
		select {
		case c = <-p.conns:
		case <-over.C:
			return
		}
	}
}
