-- Simba's tables and procedures, version 1. They may stand in any database, beside other tables.
--
-- Every call of the library is one `call simba_..(..)`, which is one transaction. What each does:
--
-- 1. The own session's row is locked. Only then is the clock read, by sysdate: now() is the instant at which the
--    statement began, also after it has waited for a lock, and would renew a session that has been taken over meanwhile.
-- 2. A session that is over is deleted, by whoever finds it so, in the same transaction in which its leases are given
--    away. It never comes back: a lease whose session has no row is free.
-- 3. A foreign session is first judged by a plain read. If it seems to be over, its row is locked, unless somebody else
--    has it, and is judged again by the clock of that moment.
--
-- Nobody waits for a foreign session or for a lease: what is locked by another transaction counts as held. The waits left
-- are for the own session, and for a name that another transaction makes just now. Procedures run with the rights of
-- whoever calls them, and need transactions that are read committed, which the library sets for its connections.

create table if not exists simba_meta (
    name  varchar(32) character set ascii collate ascii_bin primary key,
    value varchar(32) character set ascii collate ascii_bin not null
) engine = InnoDB;

-- One row a session. A renewal touches this row alone, and no index.
create table if not exists simba_session (
    id         binary(16) primary key,
    expires_us bigint not null,                     -- the server's clock, microseconds since 1970
    renewed_us bigint not null,
    lease_us   bigint not null,
    version    bigint not null default 0,           -- how often the session's set of leases has changed
    node       varchar(128) character set ascii collate ascii_bin not null,
    host       varchar(128) character set ascii collate ascii_bin not null,
    pid        bigint not null,
    client     varchar(255) character set utf8mb4 not null
) engine = InnoDB;

-- One row a name. Rows are never deleted, so that a token is never handed out twice. Names are compared byte for byte.
create table if not exists simba_lease (
    name        varchar(257) character set ascii collate ascii_bin primary key,
    token       bigint not null,
    session     binary(16),
    acquired_us bigint not null,
    key simba_lease_session (session)
) engine = InnoDB;

delimiter $$

-- Locks the own session, and judges it then. A null version: it is over.
drop procedure if exists simba_live $$
create procedure simba_live(
    p_session binary(16), out p_version bigint, out p_lease_us bigint, out p_expires_us bigint
) sql security invoker
begin
    declare continue handler for not found begin end;
    set p_version = null, p_lease_us = null, p_expires_us = null;
    select version, lease_us, expires_us into p_version, p_lease_us, p_expires_us
    from simba_session where id = p_session for update;
    if p_expires_us <= cast(unix_timestamp(sysdate(6)) * 1000000 as signed) then
        delete from simba_session where id = p_session;
        set p_version = null;
    end if;
end $$

-- Sessions whose owners have died are cleared away, some at a time.
drop procedure if exists simba_reap $$
create procedure simba_reap(p_now bigint) sql security invoker
begin
    declare v_id, v_locked binary(16);
    declare v_done boolean default false;
    declare late cursor for select id from simba_session where expires_us <= p_now limit 16;
    declare continue handler for not found set v_done = true;
    open late;
    fetch late into v_id;
    while not v_done do
        set v_locked = null;
        select id into v_locked from simba_session where id = v_id and expires_us <= p_now for update skip locked;
        delete from simba_session where id = v_locked;
        set v_done = false;
        fetch late into v_id;
    end while;
    close late;
end $$

drop procedure if exists simba_open $$
create procedure simba_open(
    p_session binary(16), p_lease_us bigint, p_node varchar(128) character set ascii,
    p_host varchar(128) character set ascii, p_pid bigint, p_client varchar(255) character set utf8mb4
) sql security invoker
begin
    declare v_now bigint;
    declare exit handler for sqlexception begin rollback; resignal; end;
    start transaction;
    set v_now = cast(unix_timestamp(sysdate(6)) * 1000000 as signed);
    call simba_reap(v_now);
    insert into simba_session (id, expires_us, renewed_us, lease_us, node, host, pid, client)
    values (p_session, v_now + p_lease_us, v_now, p_lease_us, p_node, p_host, p_pid, p_client);
    commit;
end $$

-- The version and the lease time; then the list, unless the caller knows it. A null version: the session is over.
drop procedure if exists simba_keep_alive $$
create procedure simba_keep_alive(p_session binary(16), p_known bigint) sql security invoker
begin
    declare v_version, v_lease_us, v_expires_us, v_now bigint;
    declare exit handler for sqlexception begin rollback; resignal; end;
    start transaction;
    call simba_live(p_session, v_version, v_lease_us, v_expires_us);
    if v_version is not null then
        set v_now = cast(unix_timestamp(sysdate(6)) * 1000000 as signed);
        update simba_session set expires_us = v_now + v_lease_us, renewed_us = v_now where id = p_session;
    end if;
    select v_version, v_lease_us;
    if v_version is not null and not (v_version <=> p_known) then
        select name, token from simba_lease where session = p_session;
    end if;
    commit;
end $$

-- Takes one lease that seemed to be free, if it still is; p_won is raised by one.
drop procedure if exists simba_take $$
create procedure simba_take(
    p_session binary(16), p_name varchar(257) character set ascii collate ascii_bin, inout p_won bigint
) sql security invoker
begin
    declare v_token, v_expires_us, v_now bigint;
    declare v_holder binary(16);
    declare v_free boolean default false;
    declare continue handler for not found begin end;
    set v_now = cast(unix_timestamp(sysdate(6)) * 1000000 as signed);
    select token, session into v_token, v_holder from simba_lease where name = p_name for update skip locked;
    if v_token < 9223372036854775807 and not (v_holder <=> p_session) then
        select expires_us into v_expires_us from simba_session where id = v_holder;
        if v_expires_us is null then
            set v_free = true;
        elseif v_expires_us <= v_now then
            set v_expires_us = null;
            select expires_us into v_expires_us from simba_session where id = v_holder for update skip locked;
            set v_now = cast(unix_timestamp(sysdate(6)) * 1000000 as signed);
            if v_expires_us <= v_now then
                delete from simba_session where id = v_holder;
                set v_free = true;
            end if;
        end if;
        if v_free then
            update simba_lease set token = token + 1, session = p_session, acquired_us = v_now where name = p_name;
            set p_won = p_won + 1;
        end if;
    end if;
end $$

-- The versions before and after; then for each name, in the order given, its token, whether it is the caller's, and who
-- holds it. A null version and no second answer: the session is over.
drop procedure if exists simba_acquire $$
create procedure simba_acquire(p_session binary(16), p_names longtext character set utf8mb4) sql security invoker
begin
    declare v_version, v_lease_us, v_expires_us, v_now, v_won bigint default 0;
    declare v_name varchar(257) character set ascii collate ascii_bin;
    declare v_done boolean default false;
    declare free cursor for
        select l.name
        from (
            select distinct convert(t.name using ascii) collate ascii_bin as name
            from json_table(p_names, '$[*]' columns (name varchar(257) path '$')) t
        ) g
        join simba_lease l on l.name = g.name
        left join simba_session s on s.id = l.session
        where not (l.session <=> p_session) and (s.id is null or s.expires_us <= v_now)
        order by l.name;
    declare continue handler for not found set v_done = true;
    declare exit handler for sqlexception begin rollback; resignal; end;
    start transaction;
    call simba_live(p_session, v_version, v_lease_us, v_expires_us);
    if v_version is null then
        select v_version, v_version;
    else
        -- Names that nobody has had yet. Two callers who make the same ones meet in the order of the names.
        set v_now = cast(unix_timestamp(sysdate(6)) * 1000000 as signed);
        insert ignore into simba_lease (name, token, session, acquired_us)
        select distinct g.name, 1, p_session, v_now
        from (
            select convert(t.name using ascii) collate ascii_bin as name
            from json_table(p_names, '$[*]' columns (name varchar(257) path '$')) t
        ) g
        left join simba_lease l on l.name = g.name
        where l.name is null order by g.name;
        set v_won = row_count();

        set v_done = false;
        open free;
        fetch free into v_name;
        while not v_done do
            call simba_take(p_session, v_name, v_won);
            set v_done = false;
            fetch free into v_name;
        end while;
        close free;
        if v_won > 0 then
            update simba_session set version = v_version + v_won where id = p_session;
        end if;

        -- The waits are over: a session that has run out meanwhile is granted nothing.
        set v_now = cast(unix_timestamp(sysdate(6)) * 1000000 as signed);
        if v_expires_us <= v_now then
            signal sqlstate '45001' set message_text = 'the session ran out while this call waited';
        end if;
        select v_version, v_version + v_won;
        select l.token, l.session <=> p_session, s.node, s.host, s.pid, s.client,
            greatest(0, least(s.lease_us, s.expires_us - v_now))
        from (
            select t.place, convert(t.name using ascii) collate ascii_bin as name
            from json_table(p_names, '$[*]' columns (place for ordinality, name varchar(257) path '$')) t
        ) g
        join simba_lease l on l.name = g.name
        left join simba_session s on s.id = l.session
        order by g.place;
    end if;
    commit;
end $$

-- The versions before and after. A null version: the session is over.
drop procedure if exists simba_release $$
create procedure simba_release(p_session binary(16), p_grants longtext character set utf8mb4) sql security invoker
begin
    declare v_version, v_lease_us, v_expires_us, v_freed bigint default 0;
    declare exit handler for sqlexception begin rollback; resignal; end;
    start transaction;
    call simba_live(p_session, v_version, v_lease_us, v_expires_us);
    if v_version is not null then
        update simba_lease l
        join (
            select convert(t.name using ascii) collate ascii_bin as name, t.token
            from json_table(p_grants, '$[*]' columns (name varchar(257) path '$[0]', token bigint path '$[1]')) t
        ) g on g.name = l.name
        set l.session = null where l.token = g.token and l.session = p_session;
        set v_freed = row_count();
        if v_freed > 0 then
            update simba_session set version = v_version + v_freed where id = p_session;
        end if;
    end if;
    select v_version, v_version + v_freed;
    commit;
end $$

-- Ends a session; whether it was alive.
drop procedure if exists simba_close $$
create procedure simba_close(p_session binary(16)) sql security invoker
begin
    declare v_version, v_lease_us, v_expires_us bigint;
    declare exit handler for sqlexception begin rollback; resignal; end;
    start transaction;
    call simba_live(p_session, v_version, v_lease_us, v_expires_us);
    delete from simba_session where id = p_session;
    select v_version is not null;
    commit;
end $$

-- The token that the lease carries then, and whether it was freed. A null token: nobody holds it.
drop procedure if exists simba_force_release $$
create procedure simba_force_release(
    p_name varchar(257) character set ascii collate ascii_bin, p_token bigint
) sql security invoker
begin
    declare v_token bigint;
    declare v_holder, v_present, v_locked binary(16);
    declare v_freed boolean default false;
    declare continue handler for not found begin end;
    declare exit handler for sqlexception begin rollback; resignal; end;
    start transaction;
    find: loop
        set v_holder = null, v_present = null, v_token = null;
        select session into v_holder from simba_lease where name = p_name;
        -- The session first, as everybody does.
        select id into v_locked from simba_session where id = v_holder for update;
        select token, session into v_token, v_present from simba_lease where name = p_name for update;
        if v_present <=> v_holder then
            leave find;
        end if;
    end loop;
    if v_present is null then
        set v_token = null;
    elseif v_token = p_token then
        -- The last token there is cannot be raised; nobody gets the lease any more.
        set v_token = least(v_token, 9223372036854775806) + 1, v_freed = true;
        update simba_lease set session = null, token = v_token where name = p_name;
        update simba_session set version = version + 1 where id = v_holder;
    end if;
    select v_token, v_freed;
    commit;
end $$

-- A page of leases for people: names of a namespace (its prefix), that begin with a text, after a name.
drop procedure if exists simba_inspect $$
create procedure simba_inspect(
    p_space varchar(129) character set ascii collate ascii_bin, p_wanted text character set utf8mb4,
    p_after varchar(257) character set ascii collate ascii_bin, p_limit int
) sql security invoker
begin
    declare v_now bigint default cast(unix_timestamp(sysdate(6)) * 1000000 as signed);
    select l.name, l.token, lower(hex(s.id)), v_now - l.acquired_us, v_now - s.renewed_us,
        least(s.expires_us - v_now, s.lease_us), s.node, s.host, s.pid, s.client
    from simba_lease l left join simba_session s on s.id = l.session and s.expires_us > v_now
    where l.name > p_after and l.name >= p_space
        and left(l.name, char_length(p_wanted)) = p_wanted collate utf8mb4_bin
        and locate('/', l.name, char_length(p_space) + 1) = 0
    order by l.name limit p_limit;
end $$

delimiter ;

insert ignore into simba_meta (name, value) values ('schema', '1');
