package checkpoint

import "syscall"

// networkFolder names the network file system that holds folder, "" for a local one or when that cannot be told.
func networkFolder(folder string) string {
	var st syscall.Statfs_t
	const local = 0x1000 // MNT_LOCAL of mount(2)
	if syscall.Statfs(folder, &st) != nil || st.Flags&local != 0 {
		return ""
	}
	var name []byte
	for _, c := range st.Fstypename {
		if c == 0 {
			break
		}
		name = append(name, byte(c))
	}
	return string(name)
}
