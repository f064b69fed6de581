// Pool is a program of the suite that serves with package net. It reuses goroutines, whose stacks
// have grown already, and accepts connections in several goroutines, as maurice2k/tcpserver does.
// It is for machines that cannot fetch that library. See package tcpprog.
package main

import (
	"context"
	"net"
	"time"

	"github.com/haul-project/haul/bench/tcpprog"
)

func main() { tcpprog.Main("pool", serve) }

const (
	acceptors = 8               // number of goroutines that accept connections
	idleTime  = 5 * time.Second // time after which a goroutine without a connection returns
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
	return <-failed // the program exits at the first failure
}

type pool struct {
	r     *tcpprog.Responder
	conns chan net.Conn // passes each accepted connection to a goroutine that waits for one
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

// work serves the connection c, and then further connections, until none arrives for idleTime.
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
