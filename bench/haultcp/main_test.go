package main

import (
	"testing"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/tcpprog/tcpprogtest"
)

func TestProgram(t *testing.T) {
	for _, c := range []struct {
		name string
		does peer.Trade
		more []string
	}{
		{"alone", peer.Trade{Answers: true, TLS: true, Files: true}, nil},
		{"clients speak first", peer.Trade{Answers: true, TLS: true, Files: true}, []string{"-defer"}},
		{"events", peer.Trade{Answers: true, TLS: true}, []string{"-defer", "-events"}},
		{"under net/http", peer.Trade{Answers: true, TLS: true, Files: true}, []string{"-defer", "-under"}},
	} {
		t.Run(c.name, func(t *testing.T) { tcpprogtest.Test(t, serve, c.does, c.more...) })
	}
}
