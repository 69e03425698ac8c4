
set -e
hostname "$1"
mount --bind "$2" /etc/hosts
if [ "$3" != 0 ]; then
    mount -t tmpfs -o "size=$3" tmpfs /mnt
    chmod 1777 /mnt
    [ -z "$4" ] || { mkdir "/mnt/$4"; mount --bind "/tmp/$4" "/mnt/$4"; }
    mount --rbind /mnt /tmp
fi
mount --bind /dev/null /etc/resolv.conf || true
ip link set lo up
echo ready
while :; do sleep 1000 & wait $!; done
