//go:build linux

package interop

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"testing"
)

// GRUB, started by iPXE, gets its modules, lists and configuration from haul, one small file
// after the other, and computes the sum of a large one. It uses iPXE's network driver, but its
// own TFTP.
func TestFirmwareGRUB(t *testing.T) {
	t.Parallel()
	const size = 4<<20 + 777
	dir := t.TempDir()
	modules := needFile(t, "grub-pc-bin", "/usr/lib/grub/i386-pc")
	out, err := find(t, "grub-pc-bin", "grub-mknetdir").run(t.Context(),
		"--directory", modules, "--net-directory", dir, "--subdir", "grub", "--locales=", "--fonts=", "--themes=")
	if err != nil {
		t.Fatalf("grub-mknetdir: %v\n%s", err, out)
	}
	fill(t, dir, map[string][]byte{
		"image": content(size),
		"empty": nil,
		"grub/grub.cfg": []byte(`
			serial
			terminal_output serial
			if [ -s /image ]; then echo There is something in it. ; fi
			sha256sum /image
			sha256sum /empty
			halt
		`),
	})
	d := serveCable(t, dir)
	offerAddress(t, "grub/i386-pc/core.0")
	m := powerOn(t, "e1000")
	m.await(t, `There is something in it`)
	for _, b := range [][]byte{content(size), nil} {
		if got, want := m.await(t, `([0-9a-f]{64})  /`)[1], fmt.Sprintf("%x", sha256.Sum256(b)); got != want {
			t.Errorf("GRUB's sum of %d bytes is %s, want %s", len(b), got, want)
		}
	}
	m.awaitOff(t)
	// It looks for a configuration of this machine before the common one.
	small := regexp.MustCompile(`^done /grub/.* blksize=1024 tsize=\d+$|^refused /grub/grub.cfg-\S+ octet$`)
	wantLogged(t, slices.DeleteFunc(logged(t, d), small.MatchString),
		`done grub/i386-pc/core.0 octet blksize=1432 tsize=\d+`,
		`(ended by peer|probe) /image octet blksize=1024 tsize=\d+`, // GRUB opens it to check whether it is empty
		fmt.Sprintf(`done /image octet blksize=1024 tsize=%d`, size),
		`(done|probe) /empty octet blksize=1024`, // it need not wait, because the file has no data
	)
}
