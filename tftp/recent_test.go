package tftp

import (
	"testing"

	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/udp"
)

// A late duplicate of an old packet may arrive before the peer's next request is handled. It is not
// answered with an ERROR, which the peer would take for the answer to that request.
func TestNoErrorBeforeAnswer(t *testing.T) {
	m := manualRoutes(2, Config{Store: &tftptest.Endless{Size: 100}})
	b := m.bindings[0]
	peer, late := peerAt(1), []byte{0, 4, 0, 9}
	sh := b.shards[1]
	answered := func() bool {
		sh.out.Flush()
		sh.answerUnknown(m.now, &udp.Message{Peer: peer}, late)
		return !sh.out.IsEmpty()
	}
	if !answered() {
		t.Error("a stranger's ACK is not answered")
	}
	b.route(m.now, &Request{Peer: peer})
	if answered() {
		t.Error("an ERROR goes to a peer that has just asked for a file")
	}
	b.routes.lost(peer)
	if !answered() {
		t.Error("nor after the request was dropped")
	}
}

// The same holds when the last ACK of a peer that has just received a complete file arrives twice.
func TestNoErrorAfterLastACK(t *testing.T) {
	m := manualRoutes(1, Config{Store: &tftptest.Endless{Size: 100}})
	sh, peer := m.bindings[0].shards[0], peerAt(1)
	answered := func(packet []byte) bool {
		sh.out.Flush()
		sh.answerUnknown(m.now, &udp.Message{Peer: peer}, packet)
		return !sh.out.IsEmpty()
	}
	ack, data := []byte{0, 4, 0, 1}, []byte{0, 3, 0, 1, 9}
	sh.recent.add(m.now, peer)
	if answered(ack) {
		t.Error("a duplicate of the last ACK is answered")
	}
	if !answered(data) {
		t.Error("DATA, which no reader sends, is not answered")
	}
	m.now = m.now.Add(recentFor)
	if !answered(ack) {
		t.Errorf("nor is an ACK after %v", recentFor)
	}
	for i := range 10 * maxRecent {
		sh.recent.add(m.now, peerAt(i))
	}
	if n := len(sh.recent.peers); n != maxRecent {
		t.Errorf("%d peers are remembered, want %d", n, maxRecent)
	}
}
