package main

import (
	"testing"

	"github.com/haul-project/haul/bench/peer"
	"github.com/haul-project/haul/bench/tcpprog/tcpprogtest"
)

func TestProgram(t *testing.T) {
	tcpprogtest.Test(t, serve, peer.Trade{Answers: true, TLS: true})
}
