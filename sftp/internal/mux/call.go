package mux

import (
	"github.com/haul-project/haul/sftp/internal/wire"
)

// A Call is a request that carries no data of a file, and waits for one answer.
type Call struct {
	Build func(b []byte, id uint32) []byte // appends the request
	Take  func(p *wire.Reply) error        // takes the answer; the reply is gone after it
	Then  func(err error)                  // is called with how it ended, once, under mux.mu

	Lane  *Lane // the one it has to go to; nil for any
	Slow  bool  // it may take as long as it likes
	Again bool  // it can be asked twice, so another lane may have it if one is lost

	// All of mux.mu:
	At     *Lane // the one it went to
	state  callState
	tries  int
	done   chan error
	Orphan func() // instead of Then, when the caller does not wait any more
}

type callState uint8

const (
	callNew callState = iota
	callQueued
	callSent
	callAnswered // and its answer is being read
	callEnded
)

// end ends a call. The caller holds mux.mu.
func (k *Call) end(err error) {
	k.state = callEnded
	if k.Then != nil {
		k.Then(err)
	} else if err == nil && k.Orphan != nil {
		k.Orphan()
	}
}

// A Handle is a handle and its lane.
type Handle struct {
	Lane   *Lane
	Handle string
}
