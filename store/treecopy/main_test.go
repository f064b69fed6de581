package treecopy_test

import (
	"testing"

	"github.com/haul-project/haul/internal/leak"
)

func TestMain(m *testing.M) { leak.Main(m, "haul/store/treecopy.", "haul/sftp.", "crypto/ssh.") }
