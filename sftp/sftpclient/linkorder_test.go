package sftpclient

import (
	"testing"
)

// A client has to send SYMLINK as the server interprets it.
func TestLinkOrder(t *testing.T) {
	for _, test := range []struct {
		server, client string
		draft          bool
	}{
		{"SSH-2.0-OpenSSH_9.2p1", "", false},
		{"SSH-2.0-haul", "", false},
		{"SSH-2.0-AsyncSSH_2.10.1", "", true},
		{"SSH-2.0-AsyncSSH_2.10.1", "SSH-2.0-OpenSSH_9.9", false},
	} {
		p := newFakeServer()
		h := newSSHHost(t, p)
		h.config.ServerVersion = test.server
		config := h.clientConfig("secret")
		config.ClientVersion = test.client
		c, err := Dial(t.Context(), h.listen(t), config, Config{})
		if err != nil {
			t.Fatal(err)
		}
		// The fake server knows only OpenSSH's order: if the client uses the draft's order, it
		// creates the reverse link.
		name, says := "link", "target"
		if err := c.Symlink(t.Context(), says, name); err != nil {
			t.Error(err)
		}
		if test.draft {
			name, says = says, name
		}
		if got, err := p.tree.Readlink(t.Context(), name); got != says || err != nil {
			t.Errorf("%s, %s: the link %s says %q, %v", test.server, test.client, name, got, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
