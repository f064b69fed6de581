//go:build linux

package interop

import (
	"strings"
	"testing"
)

// Partners upload to sshd and to haul, and neither gives them access to anything else.
func TestCookbookPartners(t *testing.T) {
	t.Parallel()
	const size = 2_100_000
	scripts := recipe(t, "An upload area for partners", 4)
	m := newcomer(t)
	m.unpack(t, "openssh-server")
	m.run(t, `cp /usr/share/openssh/sshd_config /etc/ssh/
mkdir -p /etc/ssh/sshd_config.d
ssh-keygen -A
id sshd 2>/dev/null || useradd --system --home-dir /run/sshd --shell /usr/sbin/nologin sshd
systemctl daemon-reload
systemctl start ssh
install -m 755 bin/haul /usr/bin/haul`)
	lanOf(t, m)
	partner := cookDesk(t, m, cookClient)
	fill(t, partner.dir, map[string][]byte{"report.pdf": content(size)})
	fill(t, m.path(source), map[string][]byte{"acme.pub": []byte(must[keyPair](t)(userKey()).line())})
	m.run(t, scripts[0])
	// sshd restarts itself.
	partner.run(t, "until haul ls acme@"+cookServer+":/ >/dev/null 2>&1; do sleep 0.1; done")
	wantDialogue(t, partner.try(t), scripts[1])
	wantFile(t, m.path("/srv/partners/acme/report.pdf"), content(size))

	// Even with bash as the shell, a partner's upload runs no command.
	m.run(t, "usermod --shell /bin/bash acme")
	partner.run(t, "echo 'echo ran >/tmp/ran' >.bashrc; haul put .bashrc acme@"+cookServer+":; haul ls acme@"+cookServer+":/; haul rm acme@"+cookServer+":.bashrc")
	m.run(t, "test ! -e /tmp/ran")
	for _, fault := range []struct{ spoil, see, want string }{
		{"usermod --shell /usr/sbin/nologin acme", "", "This account is currently not available"},
		{"usermod --shell /bin/sh acme; mv /srv/partners/acme /srv/partners/other", "journalctl --no-pager -t sftp-server -o cat", "--root /srv/partners/acme: open /srv/partners/acme: no such file or directory"},
		{"mv /srv/partners/other /srv/partners/acme; sed -i '/ForceCommand/i ChrootDirectory /srv/partners' /etc/ssh/sshd_config.d/partners.conf; systemctl restart ssh", "", "begin SFTP session: connection lost"},
	} {
		m.run(t, fault.spoil)
		out, err := partner.try(t)("haul ls acme@" + cookServer + ":/")
		if fault.see != "" {
			out = m.run(t, fault.see)
		}
		if err == nil || !strings.Contains(out, fault.want) {
			t.Errorf("after %s: %v, %s", fault.spoil, err, out)
		}
	}

	sections := docScripts(t, "guide.md", "### From an empty machine")
	// This is the section about users.
	m.run(t, "mkdir -p /srv/tftp; echo Hello >/srv/tftp/hello.txt\n"+sections[len(sections)-1])
	m.run(t, scripts[2])
	m.await(t, "haul sees the user", func() bool {
		return strings.Contains(m.run(t, "journalctl --no-pager -u haul-sftp -o cat"), "the changed file is in force")
	})
	partner.run(t, "haul ls sftp://acme@"+cookServer+":2022/") // reports that it has stored the host key
	wantDialogue(t, partner.try(t), scripts[3])
	wantFile(t, m.path("/srv/sftp/acme/report.pdf"), content(size))
}
